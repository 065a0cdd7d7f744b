-- sliding_window, fixed_window and sliding_log: sub-buckets of units, as state.lua describes. `width` is
-- the duration of a sub-bucket (0: the window begins with its first request), `span` is how long a sub-bucket
-- counts from its beginning. For a week or month, or a day of a time zone, they are moments: -`width` is
-- when the present one ends, `span` when the next one does; read_states.lua says who computes them.

local function mark_format(record)
    if record.size == 12 then return '<I4d', 9007199254740992 end
    return '<I4I2', 65536
end

-- When a sub-bucket whose first units come now stops counting.
local function end_of_new(now, width, span)
    if width >= 0 then return (width > 0 and now - now % width or now) + span end
    -- The next period has begun where the proxy computed them and its clock is behind; that it is not over
    -- either, read_states.lua has made sure.
    return now < -width and -width or span
end

-- The first of `count` marks for which `reached(total, label)` holds, or count + 1; by bisection, as
-- marks are in the order of time.
local function first_mark(record, count, reached)
    local unbytes, format = struct.unpack, mark_format(record)
    local low, high = 1, count + 1
    while low < high do
        local middle = (low + high - (low + high) % 2) / 2
        local total, label = unbytes(format, record.marks, 1 + record.size * (middle - 1))
        if reached(total, label) then high = middle else low = middle + 1 end
    end
    return low
end

-- When the sub-bucket with this label stops counting.
local function end_of(record, label, width, span)
    local _, wrap = mark_format(record)
    return record.ends - ((record.ends - span) / width - label) % wrap * width
end

-- Removes the units that have stopped counting.
local function settle(record, now, width, span)
    if record.units == 0 or now < record.oldest then return end
    keep_untouched(record)
    local total = (record.base + record.units) % 4294967296
    if record.ends <= now then
        record.base, record.units, record.ends, record.oldest, record.marks = total, 0, 0, 0, ''
        return
    end
    local size, count = record.size, #record.marks / record.size
    local first = first_mark(record, count, function(_, label)
        return end_of(record, label, width, span) > now
    end)
    local format = mark_format(record)
    -- With `first` == 1 no mark has ended: `oldest` was earlier than the marks say.
    if first > 1 then record.base = struct.unpack(format, record.marks, 1 + size * (first - 2)) end
    record.units = (total - record.base) % 4294967296
    record.oldest = record.units > 0 and record.ends or 0
    if first <= count then
        local _, label = struct.unpack(format, record.marks, 1 + size * (first - 1))
        record.oldest = end_of(record, label, width, span)
    end
    record.marks = string.sub(record.marks, 1 + size * (first - 1))
end

-- Takes units at `now`. The record is settled. Units saturate, as nothing else bounds them with
-- `count: all`.
local function take(record, now, width, span, cost)
    -- A week, a month or a window that its first request opened has one sub-bucket, and keeps it while it has
    -- units.
    local ends = (record.units == 0 or width > 0) and end_of_new(now, width, span)
    record.untouched = nil
    if record.units == 0 then
        -- The time of a record never runs backwards, not even after all units were given back.
        record.ends = math.max(ends, record.ends)
        record.oldest = record.ends
    elseif width > 0 and ends > record.ends then
        -- The newest sub-bucket has ended and leaves a mark, unless its units were given back.
        local format, wrap = mark_format(record)
        local total = (record.base + record.units) % 4294967296
        local last = #record.marks - record.size + 1
        if last < 1 or struct.unpack('<I4', record.marks, last) ~= total then
            record.marks = record.marks ..
                struct.pack(format, total, (record.ends - span) / width % wrap)
        end
        record.ends = ends
        if record.size == 12 and #record.marks > 1000 * 12 then
            -- A log has more marks than its largest possible quota: the oldest changes no decision.
            local gone, _, _, label = struct.unpack('<I4dI4d', record.marks)
            record.units = record.units - (gone - record.base) % 4294967296
            record.base, record.oldest = gone, label + span
            record.marks = string.sub(record.marks, 13)
        end
    end
    record.units = math.min(record.units + cost, 4294967295)
end

-- When `needed` of the units that count will have stopped counting.
local function frees_at(record, needed, width, span)
    local count = #record.marks / record.size
    local first = first_mark(record, count, function(total)
        return (total - record.base) % 4294967296 >= needed
    end)
    if first > count then return record.ends end
    local _, label = struct.unpack(mark_format(record), record.marks, 1 + record.size * (first - 1))
    return end_of(record, label, width, span)
end

-- The same as follow_clock() for periods: moves a record back that is later than the next one.
local function follow_calendar(record, now, width, span)
    if record.units == 0 or record.ends <= span then return false end
    local ends = end_of_new(now, width, span)
    -- Where the proxy's clock is behind, months of other lengths may follow.
    if ends >= span and record.ends <= ends + 2 * (span + width) then return false end
    record.ends, record.oldest = ends, ends
    return true
end

-- Moves a record back in time if the clock of Redis was put back by more than a window, and returns
-- whether it was. Without that the identifier would wait until the old time comes again.
local function follow_clock(record, now, width, span)
    if width < 0 then return follow_calendar(record, now, width, span) end
    if record.units == 0 or record.ends - span - now <= span then return false end
    local back = record.ends - end_of_new(now, width, span)
    local format, wrap = mark_format(record)
    local moved = {}
    for mark = 1, #record.marks / record.size do
        local total, label = struct.unpack(format, record.marks, 1 + record.size * (mark - 1))
        moved[mark] = struct.pack(format, total, (label - back / width) % wrap)
    end
    record.marks = table.concat(moved)
    record.ends, record.oldest = record.ends - back, record.oldest - back
    return true
end
