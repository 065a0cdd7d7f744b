-- The short way: one request, windows alone, under one policy, in states that know its limits and no
-- others, the clock not put back. What it does not understand it leaves to the long way below, having
-- written nothing. It does what `charge` and `window` do, but in straight lines: unrolled for each
-- limit (see store/unroll.hpp), with every number in a local, no function made and no string built
-- that is not stored or sent; Redis hashes every byte of every string that Lua makes.
do
local unbytes, bytes_of, sub, call = struct.unpack, struct.pack, string.sub, redis.call
local asked = ARGV[1]
local now = ARGV[3] and tonumber(ARGV[3])
if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local values, cost = call('MGET', unpack(KEYS)), unbytes('<d', ARGV[2])
local layout = unbytes('<I4', asked, 5)
local {{q$, w$, s$}} = unbytes('<{{I4dd}}', asked, 10 + LIMITS)
local understood, denied, retry_at = cost > 0, false, 0
-- Tables grow step by step, and each step costs as much as a limit: these are made at size.
local new, answered = {0, 0, 0, 0}, 0
-- How each is written: a TTL, KEEPTTL, or the offset from which on it is overwritten.
local ttls = {0, 0, 0, 0}
local answer = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

for i = 1, #KEYS do
    -- Of each limit: units, ends, oldest, base, marks (count), gone, as in the state.
    local shape, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}}
    local value = values[i]
    local tail         -- names and marks, once they are needed
    local same = true  -- but for units
    if value then
        if #value < HEAD then understood = false break end
        shape, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}} = unbytes('<I4I4{{I4}}d{{ddI4I2I2}}', value)
        local size = HEAD + 5 * LIMITS
        --each limit
        size = size + 6 * c$
        --end
        if shape ~= layout or #value ~= size then understood = false break end
    else
        generation, expiry, tail = now % 4294967295 + 1, 0, sub(asked, 10 + 21 * LIMITS)
        --each limit
        u$, e$, o$, b$, c$, g$ = 0, 0, 0, 0, 0, 0
        --end
    end
    local from = 1 + 5 * LIMITS
    --each limit, the last one first
    if u$ > 0 and now >= o$ then
        same = false
        if g$ > c$ then understood = false break end
        tail = tail or sub(value, 1 + HEAD)
        local total = b$ + u$
        if now >= e$ then
            b$, u$, g$ = total % 4294967296, 0, c$
        else
            repeat
                local mark = from + 6 * g$
                g$ = g$ + 1
                if g$ < c$ then
                    local _, next_label
                    b$, _, _, next_label = unbytes('<I4I2I4I2', tail, mark)
                    o$ = e$ - ((e$ - s$) / w$ - next_label) % 65536 * w$
                else
                    b$, o$ = unbytes('<I4', tail, mark), e$
                end
            until now < o$ or g$ >= c$
            u$ = (total - b$) % 4294967296
        end
        if g$ > 7 or g$ == c$ then
            tail = sub(tail, 1, from - 1) .. sub(tail, from + 6 * g$)
            c$, g$ = c$ - g$, 0
        end
    elseif now < e$ - s$ then
        understood = false  -- the clock was put back
        break
    end
    answer[answered + 2 * $] = u$
    if u$ + cost > q$ then
        denied = true
        if u$ + cost > q$ + 1 then understood = false break end
        if o$ > retry_at then retry_at = o$ end
    elseif not denied then
        if u$ == 0 then
            same = false
            e$ = now - now % w$ + s$
            o$ = e$
        elseif now >= e$ - s$ + w$ then
            same = false
            -- The newest sub-bucket has ended: it leaves a mark, unless its units were given back.
            tail = tail or sub(value, 1 + HEAD)
            local total, after = (b$ + u$) % 4294967296, from + 6 * c$
            if c$ == g$ or unbytes('<I4', tail, after - 6) ~= total then
                local mark = bytes_of('<I4I2', total, (e$ - s$) / w$ % 65536)
                tail = $ == 1 and tail .. mark or sub(tail, 1, after - 1) .. mark .. sub(tail, after)
                c$ = c$ + 1
            end
            e$ = now - now % w$ + s$
        end
        u$ = u$ + cost
    end
    answer[answered + 1 + 2 * $] = o$
    from = from + 6 * c$
    --end
    if not understood then break end
    answer[answered + 1] = generation
    answered = answered + 1 + 2 * LIMITS
    if not denied and same and value then
        new[i], ttls[i] = bytes_of('<{{I4}}', {{u$}}), '8'
    elseif not denied then
        local last = e1
        --each limit
        if e$ > last then last = e$ end
        --end
        local ttl = tail and 'KEEPTTL' or '0'
        if last >= expiry then
            expiry, tail = last + 1000001, tail or sub(value, 1 + HEAD)
            ttl = string.format('%.0f', (expiry - now) / 1000 + 1)
        end
        local head = bytes_of('<I4I4{{I4}}d{{ddI4I2I2}}', layout, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}})
        new[i], ttls[i] = tail and head .. tail or head, ttl
    end
end

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
    return bytes_of(answered == 14 and '<dI1ddddddddddddddd' or '<dI1d' .. string.rep('d', answered),
        now, denied and 2 or 3, retry_at, unpack(answer, 1, answered))
end
end
