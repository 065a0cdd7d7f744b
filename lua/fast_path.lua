-- The fast path: decides charges of plain windows (sliding_window, fixed_window) with few calls and few
-- strings: each redis.call costs as much as several limits, and Redis hashes every string that Lua makes.
-- charge.lua, which follows in the same script, decides everything else.
--
-- KEYS, ARGV  as in read_states.lua and charge.lua. There may be several requests, of different
--             identifiers under the same policies: KEYS has the states of the first request, then those
--             of the second and so on; ARGV[2] has the costs of each request. ARGV[1] says 0 for the
--             number of requests if no two of them share a state, 1 if two may.
-- Answers     for each request what charge.lua answers to one; for a request that the fast path leaves
--             alone, now d and the byte 4: the proxy sends that request again, by itself.
--
-- The fast path leaves a request to charge.lua, and has written nothing for it then, when a state has
-- other limits than the request, when the clock was put back, and when a value is not a state.
--
-- store/scripts.cpp expands this file when the program starts. A local is the cheapest place that Lua has
-- for a number, but locals have no index. So a branch is written out for each number of limits up to
-- LIMITS, with locals of its own for each limit. A loop with tables serves policies with more limits.
--   {{quota$, width$}}       one item for each limit: quota1, width1, quota2, width2, ...
--   {{I4dd}}                 in a format: repeated for each limit
--   LIMITS                   the number of limits of a branch; elsewhere, the most that a branch is for
--   --each number of limits  up to --end: the lines between, for 1 limit, for 2 limits, ...
--   --each window            the lines of fast_path_window.lua for each limit, the last limit first
--   --window                 the same lines once, with names without a number
do
local unbytes, bytes_of, sub, rep = struct.unpack, struct.pack, string.sub, string.rep
local call, protected_call, keys, policies, requests = redis.call, redis.pcall, KEYS, ARGV[1], ARGV[2]

local now = ARGV[3] and tonumber(ARGV[3])
if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local values, states, may_share = call('MGET', unpack(keys)), unbytes('<I1I1', policies)
local key_count = #keys
local has_several_requests = key_count > states

-- These tables have a size from the start, as each step of their growth costs as much as a limit.
-- The parts of the answer: for each request a head, then for each of its states how it stood.
local answers, answered = {'', '', '', ''}, 0
-- What is written to each state; after that for each state how (a TTL in milliseconds, 'KEEPTTL', or false for
-- SETRANGE); after that the offset for SETRANGE.
local writes = {0, 0, 0, 0, 0, 0, 0, 0}
-- Where requests have states in common: the keys that an earlier request has written. They are read again,
-- with MGET, as the proxy's user in Redis needs no right to GET.
local written = has_several_requests and may_share > 0 and {} or nil

-- The policy at hand: where the next one begins in `policies`, how many states it is for, how many of
-- those are to come, whether it has a cost of its own, and the terms of its limits.
local next_policy, policy_states, to_come, has_cost = 3, 0, 0, false
local limits, layout, head
local {{quota$, width$, span$}}
-- For more than LIMITS limits: the terms, what the answer says of each limit, and formats.
local terms, told, head_format, units_format, told_format

for first = 0, key_count - 1, states do
    -- All requests have as many bytes.
    local of_request, cost_at = unbytes('<d', requests, #requests * first / key_count + 1)
    local cost, understood, denied, retry_at = of_request, of_request > 0, false, 0
    -- A policy that is the only one is read once for all requests.
    if policy_states == states then to_come = states else next_policy, to_come = 3, 0 end

    for i = 1, states do
        local is_new_policy = to_come == 0
        if is_new_policy then
            local flags
            policy_states, flags, layout, limits = unbytes('<I1I1I4I1', policies, next_policy)
            to_come, next_policy = policy_states, next_policy + 7 + 26 * limits
            head, has_cost, cost = 16 + 28 * limits, flags == 2, of_request
        end
        if has_cost and to_come == policy_states then
            cost, cost_at = unbytes('<d', requests, cost_at)
            if cost <= 0 then understood = false break end
        end
        to_come = to_come - 1

        local held = values[first + i]
        if written and written[keys[first + i]] then held = call('MGET', keys[first + i])[1] end
        -- A state that is not there is one of zeros.
        local value = held or sub(policies, next_policy - 5 * limits, next_policy - 1) .. rep('\0', head)
        -- Where its head begins.
        local head_at = #value - head + 1
        if head_at <= 5 * limits then understood = false break end
        -- MGET answers nothing for a key of another type, too. PTTL distinguishes them.
        if not held and call('PTTL', keys[first + i]) ~= -2 then understood = false break end

        -- Whether nothing but units changes; when the last of the new sub-buckets stops counting.
        local same, last = true, 0
        -- `from` is where the marks of the limit at hand begin in the value. `made` is what has become of the
        -- bytes before `copied`. `appended` are new marks that come after all marks of the value. Where
        -- nothing was `made`, one SETRANGE can write them and the head, and leave the rest of a long state as
        -- it is. SETRANGE may double the memory of a value that it lengthens. So only states of identifiers
        -- that are busy now are written so: long ones, for sub-buckets of less than a second.
        local from, copied, made, appended = 5 * limits + 1, 1, '', ''
        local may_append = head_at > 128  -- bytes of names and marks

        if limits > LIMITS then
            if is_new_policy then
                head_format = '<' .. rep('I4', limits) .. 'I4d' .. rep('ddI4I2I2', limits) .. 'I4'
                units_format, told_format = '<' .. rep('I4', limits), '<d' .. rep('dd', limits)
                terms = {unbytes('<' .. rep('I4dd', limits), policies, next_policy - 25 * limits)}
                told = {unpack(terms, 1, 1 + 2 * limits)}  -- for its size
            end
            local state = {unbytes(head_format, value, head_at)}
            local layout_at, generation_at, expiry_at = 6 * limits + 3, limits + 1, limits + 2
            if not held then state[layout_at], state[generation_at] = layout, now % 4294967295 + 1 end
            if state[layout_at] ~= layout then understood = false break end
            local term, record = 3 * limits, 6 * limits - 2
            for k = limits, 1, -1 do
                local quota, width, span = terms[term - 2], terms[term - 1], terms[term]
                local units, ends, oldest = state[k], state[record], state[record + 1]
                local base, marks, gone = state[record + 2], state[record + 3], state[record + 4]
                local before
                --window
                state[k], told[2 * k], told[1 + 2 * k] = units, before, oldest
                if not same then
                    state[record], state[record + 1] = ends, oldest
                    state[record + 2], state[record + 3], state[record + 4] = base, marks, gone
                end
                term, record = term - 3, record - 5
            end
            if not understood or from ~= head_at then understood = false break end
            told[1] = state[generation_at]
            answers[answered + 1 + i] = bytes_of(told_format, unpack(told))
            if not denied and same then
                writes[i], writes[states + i] = bytes_of(units_format, unpack(state, 1, limits)), false
            elseif not denied then
                local ttl = (copied > 1 or appended ~= '' and not may_append) and 'KEEPTTL'
                if last >= state[expiry_at] then
                    state[expiry_at] = last + 1000001
                    ttl = string.format('%.0f', (last + 1000001 - now) / 1000 + 1)
                end
                writes[i], writes[states + i] = bytes_of('c0c0c0' .. head_format, made,
                    ttl and sub(value, copied, head_at - 1) or '', appended, unpack(state)), ttl
            end
            writes[2 * states + i] = head_at - 1
        --each number of limits
        elseif limits == LIMITS then
            if is_new_policy then
                {{quota$, width$, span$}} = unbytes('<{{I4dd}}', policies, next_policy - 25 * LIMITS)
            end
            local {{units$}}, generation, expiry, {{ends$, oldest$, base$, marks$, gone$}}, held_layout =
                unbytes('<{{I4}}I4d{{ddI4I2I2}}I4', value, head_at)
            if not held then held_layout, generation = layout, now % 4294967295 + 1 end
            if held_layout ~= layout then understood = false break end
            local {{before$}}
            --each window
            if from ~= head_at then understood = false break end
            answers[answered + 1 + i] = bytes_of('<d{{dd}}', generation, {{before$, oldest$}})
            if not denied and same then
                writes[i], writes[states + i] = bytes_of('<{{I4}}', {{units$}}), false
            elseif not denied then
                local ttl = (copied > 1 or appended ~= '' and not may_append) and 'KEEPTTL'
                if last >= expiry then
                    expiry = last + 1000001
                    ttl = string.format('%.0f', (expiry - now) / 1000 + 1)
                end
                -- c0 is a whole string: struct.pack joins all parts, without a string for the head.
                writes[i], writes[states + i] = bytes_of('<c0c0c0{{I4}}I4d{{ddI4I2I2}}I4', made,
                    ttl and sub(value, copied, head_at - 1) or '', appended, {{units$}}, generation, expiry,
                    {{ends$, oldest$, base$, marks$, gone$}}, layout), ttl
            end
            writes[2 * states + i] = head_at - 1
        --end
        end
    end

    if understood then
        for i = 1, denied and 0 or states do
            local key, ttl = keys[first + i], writes[states + i]
            if not ttl then
                -- Redis turns a number into text at twice the price.
                call('SETRANGE', key, string.format('%d', writes[2 * states + i]), writes[i])
            elseif ttl ~= 'KEEPTTL' then
                call('SET', key, writes[i], 'PX', ttl)
            elseif not protected_call('SET', key, writes[i], ttl).ok then
                -- Redis 5 has no KEEPTTL and refuses.
                local left = call('PTTL', key)
                call('SET', key, writes[i], 'PX', left > 0 and string.format('%.0f', left) or '86400000')
            end
            if written then written[key] = true end
        end
        answers[answered + 1] = bytes_of('<dI1d', now, denied and 2 or 3, retry_at)
        answered = answered + 1 + states
    elseif has_several_requests then
        answers[answered + 1] = bytes_of('<dI1', now, 4)
        answered = answered + 1
        policy_states = 0  -- this request may not have come to read all of its policy
    end
    if (understood or has_several_requests) and first + states == key_count then
        return table.concat(answers, '', 1, answered)
    end
end
end
