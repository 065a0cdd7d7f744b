-- The short way: up to four states of as many limits each, in straight lines: unrolled for each limit
-- (see store/unroll.hpp), with every number in a local.
do
local layout, {{q$, w$, s$}}

for first = 0, #keys - 1, states do
--request

for i = 1, states do
    if of_run == 0 then
        local _
        run_states, _, layout = unbytes('<I1I1I4', asked, run_at)
        of_run = run_states
        {{q$, w$, s$}} = unbytes('<{{I4dd}}', asked, run_at + 7 + LIMITS)
        run_at = run_at + 7 + 26 * LIMITS
    end
    of_run = of_run - 1
    local held = values[first + i]
    if written and written[keys[first + i]] then held = call('MGET', keys[first + i])[1] end
    -- A state that is not there is one of zeros.
    local value = held or
        string.rep('\0', HEAD) .. sub(asked, run_at - 5 * LIMITS, run_at - 1)
    if #value < HEAD then understood = false break end
    local shape, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}} =
        unbytes('<I4I4{{I4}}d{{ddI4I2I2}}', value)
    if not held then
        if not is_absent(keys[first + i]) then understood = false break end
        shape, generation = layout, now % 4294967295 + 1
    end
    if shape ~= layout then understood = false break end
    -- Whether nothing changes but units; when the last of new sub-buckets stops counting.
    local same, last = true, 0
    local from, till, copied, made = HEAD + 5 * LIMITS + 1, #value + 1, HEAD + 1, ''
    local {{h$}}
    --each limit, the last one first
    --window
    --end
    if from ~= till then understood = false break end
    answers[answered + 1 + i] = bytes_of('<d{{dd}}', generation, {{h$, o$}})
    if not denied and same then
        new[i], ttls[i] = bytes_of('<{{I4}}', {{u$}}), '8'
    elseif not denied then
        local ttl = copied > HEAD + 1 and 'KEEPTTL' or '0'
        if last >= expiry then
            expiry = last + 1000001
            ttl = string.format('%.0f', (expiry - now) / 1000 + 1)
        end
        new[i] = bytes_of('<I4I4{{I4}}d{{ddI4I2I2}}',
            layout, generation, {{u$}}, expiry, {{e$, o$, b$, c$, g$}})
        if ttl ~= '0' then new[i] = new[i] .. made .. sub(value, copied) end
        ttls[i] = ttl
    end
end

--writing
end
end
