-- Gives units back to the states that they were taken from. Units that have expired meanwhile are not given
-- back, so no count falls below zero, and a state that was made anew is left alone.
--
-- KEYS     the states, then the sorted sets of their limits of kind s. A state may be there several times
-- ARGV[1]  states I1, then for each state: generation d, limits I1, then for each limit: id I4, its
--          kind c1 (as in read_states.lua), and four numbers d
--            w, l  width, span, units, when they were taken; -width is when the day, week or month
--                  of then ends
--            g, k  quota, the time that the cost takes, its parts, when it was taken; the place in the
--                  line of k is given back only while it is the last one
--            s     moment, units, -, -
-- ARGV[2]  the time in microseconds; without it the clock of Redis counts

now = ARGV[2] and tonumber(ARGV[2]) or server_time()

local states, at = struct.unpack('<I1', ARGV[1])
local set, read = states, {}
local values = redis.call('MGET', unpack(KEYS, 1, states))
for i = 1, states do
    local generation, limits
    generation, limits, at = struct.unpack('<dI1', ARGV[1], at)
    local state, changed = read[KEYS[i]], false
    if not state then
        state = values[i] and opened(values[i])
        read[KEYS[i]] = state
    end
    for _ = 1, limits do
        local id, kind, first, second, third, taken_at
        id, kind, first, second, third, taken_at, at = struct.unpack('<I4c1dddd', ARGV[1], at)
        local ours = state and state.generation == generation
        -- A limit of kind s has a set among the keys, whether the state is the one of then or not.
        local verbs = (ours or kind == 's') and algorithm(kind)
        if verbs and verbs.give_back_to_set then
            set = set + 1
            if ours then verbs.give_back_to_set(KEYS[set], first, second) end
        end
        if ours and verbs.give_back then
            for _, record in ipairs(state) do
                if record.id == id then
                    changed = verbs.give_back(record, first, second, third, taken_at) or changed
                end
            end
        end
    end
    if changed then state.changed = true end
end
for i = 1, states do
    local state = read[KEYS[i]]
    if state and state.changed then
        store(KEYS[i], state, now)
        state.changed = false
    end
end
return 0
