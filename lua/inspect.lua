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

local told, moments = {}, {}
for _, run in ipairs(runs) do
    for i = run.first, run.last do
        local state = run.states[i]
        for k, limit in ipairs(run) do
            local verbs = limit.verbs
            told[#told + 1] = struct.pack('<dddd', verbs.count(limit, state[k], i))
            if verbs.moments then moments[#moments + 1] = verbs.moments(limit, i) end
        end
        told[#told + 1] = struct.pack('<I1', #state - #run)
        for k = #run + 1, #state do
            told[#told + 1] = struct.pack('<I4d', state[k].id, state[k].ends)
        end
    end
end
return struct.pack('<d', now) .. table.concat(told) .. table.concat(moments)
