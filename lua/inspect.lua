-- Tells what is counted (`tidegate inspect`). Takes nothing.
--
-- KEYS, ARGV[1], ARGV[3]  as in read_states.lua, for no request; ARGV[2] is not used
--
-- Answers  now d; then for each state, for each limit four numbers d d d d (times are moments, 0: none)
--            windows    units; when the next one is free; when all are; when a request of cost 1
--                       passes, if it does not now
--            buckets    parts and tat, -, -
--            schedule   the time of the newest request, -, -, -
--            slots      how many are held, -, -, -
--          then how many records of other limits the state has I1, for each: id I4, ends d;
--          then for each schedule of each state its moments, as charge.lua tells them

local function told_of_window(limit, record)
    if record.units == 0 then return 0, 0, 0, 0 end
    local width, span = limit.second, limit.third
    local needed, passes_at = record.units + 1 - limit.quota, 0
    if needed > 0 and limit.quota > 0 then passes_at = frees_at(record, needed, width, span) end
    return record.units, record.oldest, frees_at(record, record.units, width, span), passes_at
end

local function told_of(limit, record, set)
    if limit.kind == 'w' or limit.kind == 'l' then return told_of_window(limit, record) end
    if limit.kind == 'g' or limit.kind == 'k' then return record.units, record.ends, 0, 0 end
    if limit.kind == 'c' then
        return redis.call('ZCOUNT', set, '(' .. decimal(now), '+inf'), 0, 0, 0
    end
    return record.oldest, 0, 0, 0
end

local told, moments = {}, {}
for _, run in ipairs(runs) do
    for i = run.first, run.last do
        local state = run.states[i]
        for k, limit in ipairs(run) do
            local record, set = state[k], limit.sets[i]
            told[#told + 1] = struct.pack('<dddd', told_of(limit, record, set))
            if limit.kind == 's' or limit.kind == 'd' then
                moments[#moments + 1] = moments_from(set, limit.second, math.max(now, record.oldest))
            end
        end
        told[#told + 1] = struct.pack('<I1', #state - #run)
        for k = #run + 1, #state do
            told[#told + 1] = struct.pack('<I4d', state[k].id, state[k].ends)
        end
    end
end
return struct.pack('<d', now) .. table.concat(told) .. table.concat(moments)
