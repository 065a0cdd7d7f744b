-- The short way: up to four states of as many limits each, in straight lines: unrolled for each limit
-- (see store/unroll.hpp), with every number in a local.
do
local layout, {{q$, w$, s$}}
local told, count = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0

for i = 1, #KEYS do
    if of_run == 0 then
        local _
        of_run, _, layout = unbytes('<I1I1I4', asked, run_at)
        {{q$, w$, s$}} = unbytes('<{{I4dd}}', asked, run_at + 7 + LIMITS)
        run_at = run_at + 7 + 26 * LIMITS
    end
    of_run = of_run - 1
    -- A state that is not there is one of zeros.
    local value = values[i] or
        string.rep('\0', HEAD) .. sub(asked, run_at - 5 * LIMITS, run_at - 1)
    if #value < HEAD then understood = false break end
    local shape, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}} =
        unbytes('<I4I4{{I4}}d{{ddI4I2I2}}', value)
    if not values[i] then shape, generation = layout, now % 4294967295 + 1 end
    if shape ~= layout then understood = false break end
    -- Whether nothing changes but units; when the last of new sub-buckets stops counting.
    local same, last = true, 0
    local from, till, pieces, copied = HEAD + 5 * LIMITS + 1, #value + 1, nil, HEAD + 1
    local {{h$}}
    --each limit, the last one first
    --window
    told[count + 2 * $], told[count + 1 + 2 * $] = h$, o$
    --end
    if from ~= till then understood = false break end
    told[count + 1] = generation
    count = count + 1 + 2 * LIMITS
    if not denied and same then
        new[i], ttls[i] = bytes_of('<{{I4}}', {{u$}}), '8'
    elseif not denied then
        local ttl = pieces and 'KEEPTTL' or '0'
        if last >= expiry then
            expiry = last + 1000001
            ttl = string.format('%.0f', (expiry - now) / 1000 + 1)
        end
        new[i] = bytes_of('<I4I4{{I4}}d{{ddI4I2I2}}',
            layout, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}})
        if pieces then
            pieces[1], pieces[#pieces + 1] = new[i], sub(value, copied)
            new[i] = table.concat(pieces)
        elseif ttl ~= '0' then
            new[i] = new[i] .. sub(value, copied)
        end
        ttls[i] = ttl
    end
end

if understood then
    answer = bytes_of(count == 14 and '<dI1ddddddddddddddd' or '<dI1d' .. string.rep('d', count),
        now, denied and 2 or 3, retry_at, unpack(told, 1, count))
end
end
