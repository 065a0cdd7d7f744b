-- How the short way and the middle way end a request.
if understood then
    for i = 1, denied and 0 or states do
        local key, ttl = keys[first + i], ttls[i]
        if ttl == '0' or ttl == '8' then
            call('SETRANGE', key, ttl, new[i])
        elseif ttl ~= 'KEEPTTL' then
            call('SET', key, new[i], 'PX', ttl)
        elseif not pcall('SET', key, new[i], ttl).ok then
            -- Redis 5 has no KEEPTTL and refuses.
            local left = call('PTTL', key)
            call('SET', key, new[i], 'PX', left > 0 and string.format('%.0f', left) or '86400000')
        end
        if written then written[key] = true end
    end
    answers[answered + 1] = bytes_of('<dI1d', now, denied and 2 or 3, retry_at)
    answered = answered + 1 + states
elseif written then
    answers[answered + 1] = bytes_of('<dI1', now, 4)
    answered = answered + 1
end
if (understood or written) and first + states == #keys then
    return table.concat(answers, '', 1, answered)
end
