-- What the short way and the middle way end with. Behind it is the long way, for what they did not
-- understand.
if understood then
    for i = 1, denied and 0 or #KEYS do
        local ttl = ttls[i]
        if ttl == '0' or ttl == '8' then
            call('SETRANGE', KEYS[i], ttl, new[i])
        elseif ttl ~= 'KEEPTTL' then
            call('SET', KEYS[i], new[i], 'PX', ttl)
        elseif not redis.pcall('SET', KEYS[i], new[i], ttl).ok then
            -- Redis 5 has no KEEPTTL and refuses.
            local left = call('PTTL', KEYS[i])
            call('SET', KEYS[i], new[i], 'PX', left > 0 and string.format('%.0f', left) or '86400000')
        end
    end
    return answer
end
