-- The middle way: any number of states of any number of limits, in a loop, with the numbers of a state
-- in a table as long as they are.
do
local rep = string.rep
local n = 0
local layout, terms, told, head, head_format, units_format, told_format

for first = 0, #keys - 1, states do
--request

for i = 1, states do
    if of_run == 0 then
        local before, _ = n
        run_states, _, layout, n = unbytes('<I1I1I4I1', asked, run_at)
        of_run = run_states
        if n ~= before then
            head, head_format = 16 + 28 * n, '<I4I4' .. rep('I4', n) .. 'd' .. rep('ddI4I2I2', n)
            units_format, told_format = '<' .. rep('I4', n), '<d' .. rep('dd', n)
        end
        terms = {unbytes('<' .. rep('I4dd', n), asked, run_at + 7 + n)}
        told = {unpack(terms, 1, 1 + 2 * n)}  -- for its size
        run_at = run_at + 7 + 26 * n
    end
    of_run = of_run - 1
    local held = values[first + i]
    if written and written[keys[first + i]] then held = call('MGET', keys[first + i])[1] end
    -- A state that is not there is one of zeros.
    local value = held or rep('\0', head) .. sub(asked, run_at - 5 * n, run_at - 1)
    if #value < head then understood = false break end
    local state = {unbytes(head_format, value)}
    if not held then
        if not is_absent(keys[first + i]) then understood = false break end
        state[1], state[2] = layout, now % 4294967295 + 1
    end
    if state[1] ~= layout then understood = false break end
    -- Whether nothing changes but units; when the last of new sub-buckets stops counting.
    local same, last = true, 0
    local from, till, copied, made = head + 5 * n + 1, #value + 1, head + 1, ''
    local term, at = 3 * n, 6 * n - 1
    for k = n, 1, -1 do
        local q, w, s = terms[term - 2], terms[term - 1], terms[term]
        local u, e, o = state[2 + k], state[at], state[at + 1]
        local b, c, g = state[at + 2], state[at + 3], state[at + 4]
        local h
        --window
        state[2 + k], told[2 * k], told[1 + 2 * k] = u, h, o
        if not same then
            state[at], state[at + 1] = e, o
            state[at + 2], state[at + 3], state[at + 4] = b, c, g
        end
        term, at = term - 3, at - 5
    end
    if not understood or from ~= till then understood = false break end
    told[1] = state[2]
    answers[answered + 1 + i] = bytes_of(told_format, unpack(told))
    if not denied and same then
        new[i], ttls[i] = bytes_of(units_format, unpack(state, 3, 2 + n)), '8'
    elseif not denied then
        local ttl = copied > head + 1 and 'KEEPTTL' or '0'
        if last >= state[3 + n] then
            state[3 + n] = last + 1000001
            ttl = string.format('%.0f', (last + 1000001 - now) / 1000 + 1)
        end
        new[i] = bytes_of(head_format, unpack(state))
        if ttl ~= '0' then new[i] = new[i] .. made .. sub(value, copied) end
        ttls[i] = ttl
    end
end

--writing
end
end
