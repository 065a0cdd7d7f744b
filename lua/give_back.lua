-- Gives units back to the states that they were taken from. Units that have expired meanwhile are not given
-- back, so no count falls below zero, and a state that was made anew is left alone.
--
-- KEYS     the states, then the sorted sets of their limits of kind s
-- ARGV[1]  states I1, then for each state: generation d, limits I1, then for each limit: id I4, its
--          kind c1 (as in read_states.lua), and four numbers d
--            w, l  width, span, units, when they were taken; -width is when the day, week or month
--                  of then ends
--            g, k  quota, the time that the cost takes, its parts, when it was taken; the place in the
--                  line of k is given back only while it is the last one
--            s     moment, units, -, -
-- ARGV[2]  the time in microseconds; without it the clock of Redis counts

local now = ARGV[2] and tonumber(ARGV[2]) or server_time()

-- The sub-bucket of units that were taken at `at`: the number of its mark, count + 1 for the newest one,
-- nil if the units do not count any more.
local function place_of(record, count, width, span, at)
    if record.ends <= now then return nil end
    if width < 0 then return record.ends == -width and count + 1 or nil end
    if width == 0 then return at >= record.ends - span and at < record.ends and count + 1 or nil end
    local ends = at - at % width + span
    if ends <= math.max(now, record.ends - span) then return nil end
    if ends == record.ends then return count + 1 end
    local first = first_mark(record, count, function(_, label)
        return end_of(record, label, width, span) >= ends
    end)
    if first > count then return nil end
    local _, label = struct.unpack(mark_format(record), record.marks, 1 + record.size * (first - 1))
    return end_of(record, label, width, span) == ends and first or nil
end

local function refund_window(record, width, span, units, at)
    local size, format = record.size, mark_format(record)
    local count = #record.marks / size
    local place = record.units > 0 and place_of(record, count, width, span, at)
    if not place then return false end
    local marks, before, given, oldest = '', record.base, 0, record.ends
    for mark = 1, count do
        local total, label = struct.unpack(format, record.marks, 1 + size * (mark - 1))
        local held = (total - before) % 4294967296
        if mark == place then given = math.min(units, held) end
        before = total
        -- Every later mark gets a total without the units; an empty sub-bucket loses its mark.
        if mark ~= place or given < held then
            if marks == '' then oldest = end_of(record, label, width, span) end
            marks = marks .. struct.pack(format, (total - given) % 4294967296, label)
        end
    end
    if place > count then
        given = math.min(units, (record.base + record.units - before) % 4294967296)
    end
    record.marks, record.units = marks, record.units - given
    record.oldest = record.units > 0 and oldest or 0
    return given > 0
end

-- The tat moves back by what the request took, but not to before the request came: the quota may have
-- changed meanwhile.
local function refund_bucket(record, quota, time, parts, at)
    settle_bucket(record, quota)
    record.ends, record.units = record.ends - time, record.units - parts
    if record.units < 0 then record.ends, record.units = record.ends - 1, record.units + quota end
    if record.ends < at then record.ends, record.units = at, 0 end
    record.untouched = nil
    return true
end

local function refund_moment(key, moment, units)
    -- A key of another type must not keep the script from giving back the rest: pcall.
    local there = redis.pcall('ZRANGEBYSCORE', key, decimal(moment), decimal(moment))[1]
    if not there then return end
    local left = tonumber(string.match(there, ':(%d+)$')) - units
    -- ZADD before ZREM: see take_slot() in slots.lua.
    if left > 0 then redis.call('ZADD', key, decimal(moment), decimal(moment) .. ':' .. decimal(left)) end
    redis.call('ZREM', key, there)
end

local function refund(record, kind, first, second, third, at)
    if kind == 'w' or kind == 'l' then
        return refund_window(record, first, second, third, at)
    elseif record.ends < now or record.ends == now and record.units == 0 then
        return false
    elseif kind == 'g' then
        -- Only what cannot have leaked since: without this request the bucket might have been empty.
        local left = second - math.max(0, now - at)
        return left >= 0 and left + third > 0 and refund_bucket(record, first, left, third, at)
    elseif record.oldest ~= at then
        return false
    end
    record.oldest = -at
    return refund_bucket(record, first, second, third, at)
end

local states, at = struct.unpack('<I1', ARGV[1])
local set = states
for i, value in ipairs(redis.call('MGET', unpack(KEYS, 1, states))) do
    local generation, limits
    generation, limits, at = struct.unpack('<dI1', ARGV[1], at)
    local state, changed = value and opened(value), false
    for _ = 1, limits do
        local id, kind, first, second, third, taken_at
        id, kind, first, second, third, taken_at, at = struct.unpack('<I4c1dddd', ARGV[1], at)
        local ours = state and state.generation == generation and state or {}
        if kind == 's' then
            set = set + 1
            if ours == state then refund_moment(KEYS[set], first, second) end
        end
        for _, record in ipairs(kind ~= 's' and ours or {}) do
            if record.id == id then changed = refund(record, kind, first, second, third, taken_at) or changed end
        end
    end
    if changed then store(KEYS[i], state, now) end
end
return 0
