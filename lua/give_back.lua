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

local unbytes, call, refunds = struct.unpack, redis.call, ARGV[1]
local units_formats = {}

-- The short way, without opened() and store(): most units go back to the sub-bucket that is still the newest one,
-- and leave some there. Then only `units` in the head changes (state.lua has the layout; a limit of ARGV[1] has 37
-- bytes). Takes states whose records are all windows, in the order of the refund. False: nothing has changed.
local function give_back_newest(key, value, generation, limits, at)
    local head = #value - 28 * limits - 15
    if head <= 5 * limits or unbytes('<I4', value, #value - 3) % 256 ~= limits or
        unbytes('<I4', value, head + 4 * limits) ~= generation then
        return false
    end
    local from, left = 5 * limits + 1, {}
    for k = limits, 1, -1 do
        local id, kind, width, span, units, taken_at = unbytes('<I4c1dddd', refunds, at + 37 * (k - 1))
        local named, size = unbytes('<I4I1', value, 5 * k - 4)
        local held = unbytes('<I4', value, head + 4 * k - 4)
        local ends, _, base, count, gone = unbytes('<ddI4I2I2', value, head + 4 * limits + 24 * k - 12)
        local till = from + 6 * count
        if kind ~= 'w' or id ~= named or size ~= 6 or width <= 0 or ends <= now or gone > count or till > head or
            taken_at - taken_at % width + span ~= ends then
            return false
        end
        local before = count > gone and unbytes('<I4', value, till - 6) or base
        local given = math.min(units, (base + held - before) % 4294967296)
        if given >= held then return false end
        left[k], from = held - given, till
    end
    if from ~= head then return false end
    local format = units_formats[limits] or '<' .. string.rep('I4', limits)
    units_formats[limits] = format
    call('SETRANGE', key, string.format('%d', head - 1), struct.pack(format, unpack(left)))
    return true
end

local states, at = unbytes('<I1', refunds)
local set, read, written = states, {}, {}
local values = call('MGET', unpack(KEYS, 1, states))
for i = 1, states do
    local key, value, generation, limits = KEYS[i], values[i]
    generation, limits, at = unbytes('<dI1', refunds, at)
    -- A state may be there several times: what give_back_newest() wrote is not in `values`.
    if written[key] then value = call('MGET', key)[1] end
    local state, changed = read[key], false
    if not state and value and give_back_newest(key, value, generation, limits, at) then
        written[key], limits, at = true, 0, at + 37 * limits
    elseif not state then
        state = value and opened(value)
        read[key] = state
    end
    for _ = 1, limits do
        local id, kind, first, second, third, taken_at
        id, kind, first, second, third, taken_at, at = unbytes('<I4c1dddd', refunds, at)
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
