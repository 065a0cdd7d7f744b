-- Charges one request to every limit of every identifier: looks at all, and only if all admit takes
-- from all. sliding_window and fixed_window; counts as src/limit/window.hpp does.
--
-- KEYS     one state for each identifier and policy
-- ARGV[1]  what is asked, packed:
--            cost I8, then for each run of keys under one policy:
--              keys I1, limits I1, layout I4, width d (of the narrowest sub-bucket),
--              for each limit: quota I4, precision d, span d; then for each limit: id I4
--            precision: width of a sub-bucket, 0 for a window that opens with its first request
--            span: how long a sub-bucket counts from its beginning
-- ARGV[2]  the time in microseconds; without it the server's own
--
-- Answers  admitted I1, microseconds until the request would pass i8 (-1: never),
--          for each limit of each key: units left before this request i8 (negative when the quota
--          was lowered), microseconds until the next unit is free I8
--
-- A state  layout I4 (which records, in which order: 256 * hash + their number), until d,
--          for each record: units I4;  for each record: ends d, age I2;  expiry d;
--          for each record: id I4, base I4, marks I2, newest I2
--          then the marks of each record, oldest first: total I4, label I2
--   A mark is a sub-bucket that ended: the total of all units taken until then. What counts is the
--   difference of two totals, found by bisection: neither a denial nor a long idle time walks
--   through expired sub-buckets, and a denial writes nothing.
--     until   before then no sub-bucket begins and none expires: `units` is what counts, and taking
--             changes nothing else. This is the way of a busy client, and it is short
--     units   taken since `base`, the total before the oldest mark
--     ends    when the newest sub-bucket, the one without a mark, stops counting
--     age     sub-buckets from the oldest to the newest; `newest` is its label
--     expiry  what the key's TTL covers
--
-- Numbers are doubles: everything is an integer below 2^53, and a - a % b is exact there.

local unbytes, bytes_of, rep, call = struct.unpack, struct.pack, string.rep, redis.call

-- The long way, for states in which something begins or expires. Its functions are made only when
-- they are needed: to make them costs as much as half the short way.
local function long_way()
    local unbytes, bytes_of, rep, sub = struct.unpack, struct.pack, string.rep, string.sub
    local floor, max, min = math.floor, math.max, math.min
    local format, format_records

    -- Of a whole state with n records.
    local function format_of(n)
        if n ~= format_records then
            format_records = n
            format = n == 3 and '<I4dI4I4I4dI2dI2dI2dI4I4I2I2I4I4I2I2I4I4I2I2' or
                '<I4d' .. rep('I4', n) .. rep('dI2', n) .. 'd' .. rep('I4I4I2I2', n)
        end
        return format
    end

    -- How many marks of a record count no more. Requires that the oldest does not: a sub-bucket as
    -- many sub-buckets old as `age_out` is out. Doubles its step, as mostly little has expired,
    -- then bisects.
    local function expired_marks(marks, from, count, newest, age_out)
        local low, high, step = 1, 1, 1
        while high < count do
            local _, label = unbytes('<I4I2', marks, from + 6 * high)
            if (newest - label) % 65536 < age_out then break end
            low, step = high + 1, step * 2
            high = high + step
        end
        if high > count then high = count end
        while low < high do
            local middle = floor((low + high) / 2)
            local _, label = unbytes('<I4I2', marks, from + 6 * middle)
            if (newest - label) % 65536 < age_out then high = middle else low = middle + 1 end
        end
        return low
    end

    -- A whole state in one table: [1] layout, [2] until, [2 + j] units, [1 + n + 2j] ends, [2 + n +
    -- 2j] age, [3 + 3n] expiry, [4j + 3n] id, then base, marks, newest; and the marks' bytes.
    -- Nothing if it is none.
    local function opened(value)
        local n = #value >= 20 and unbytes('<I4', value) % 256 or 0
        if n == 0 or #value < 20 + 26 * n then return nil end
        local state = {unbytes(format_of(n), value)}
        local bytes = 20 + 26 * n
        for j = 1, n do
            local ends = state[1 + n + 2 * j]
            if not (ends >= 0 and ends < 9007199254740992) then return nil end
            bytes = bytes + 6 * state[2 + 3 * n + 4 * j]
        end
        if #value ~= bytes or not (state[3 + 3 * n] < 9007199254740992) then return nil end
        return state, sub(value, 21 + 26 * n)
    end

    -- The state with the limits of `ids` as its first records, in order, then the others that
    -- count: limits this request does not know (another tier, another version of the configuration)
    -- keep theirs until they expire. At most 32 of them, so that nothing grows without bound.
    local function arranged(old, old_marks, ids, layout, now)
        local n = old[1] % 256
        local place, bytes, from = {}, {}, 1
        for j = 1, n do
            local length = 6 * old[2 + 3 * n + 4 * j]
            local id = old[3 * n + 4 * j]
            place[id], bytes[id] = j, sub(old_marks, from, from + length - 1)
            from = from + length
        end
        local order, wanted, strangers = {}, {}, 0
        for j, id in ipairs(ids) do order[j], wanted[id] = id, true end
        for j = 1, n do
            local id = old[3 * n + 4 * j]
            if not wanted[id] and old[1 + n + 2 * j] > now and strangers < 32 then
                strangers = strangers + 1
                order[#order + 1] = id
            end
        end
        local m = #order
        local state, marks = {strangers == 0 and layout or m, 0}, ''
        for j, id in ipairs(order) do state[2 + j] = place[id] and old[2 + place[id]] or 0 end
        for j, id in ipairs(order) do
            local k = place[id]
            state[1 + m + 2 * j] = k and old[1 + n + 2 * k] or 0
            state[2 + m + 2 * j] = k and old[2 + n + 2 * k] or 0
        end
        state[3 + 3 * m] = old[3 + 3 * n] or 0
        for j, id in ipairs(order) do
            local k, at = place[id], 3 * m + 4 * j
            state[at] = id
            for field = 1, 3 do state[at + field] = k and old[3 * n + 4 * k + field] or 0 end
            marks = marks .. (bytes[id] or '')
        end
        return state, marks
    end

    -- What a state counts at `now`: forgets what has expired. Gives the marks that are left and
    -- whether labels were moved.
    local function settled(state, marks, terms, limits, now, server_clock)
        local n, from, moved = state[1] % 256, 1, false
        for j = 1, limits do
            local at = 3 * n + 4 * j
            local precision, span = terms[3 * j - 1], terms[3 * j]
            local units, ends, count = state[2 + j], state[1 + n + 2 * j], state[at + 2]
            if units > 0 then
                local began = ends - span
                -- A server clock that was put back by more than a window: the labels follow it, or
                -- the identifier would wait until the old time comes again.
                if server_clock and began - now > span then
                    began = precision > 0 and now - now % precision or now
                    ends, moved = began + span, true
                    state[1 + n + 2 * j] = ends
                end
                -- Time never runs backwards for a record.
                local left, gone = ends - (began > now and began or now), 0
                if left <= 0 then
                    gone = count
                    state[at + 1] = (state[at + 1] + units) % 4294967296
                    state[2 + j], state[2 + n + 2 * j] = 0, 0
                elseif count > 0 and state[2 + n + 2 * j] * precision >= left then
                    local newest = state[at + 3]
                    gone = expired_marks(marks, from, count, newest, left / precision)
                    local base = unbytes('<I4', marks, from + 6 * (gone - 1))
                    local _, label = nil, newest
                    if gone < count then _, label = unbytes('<I4I2', marks, from + 6 * gone) end
                    state[2 + j] = (state[at + 1] + units - base) % 4294967296
                    state[at + 1], state[2 + n + 2 * j] = base, (newest - label) % 65536
                end
                if gone > 0 then
                    count = count - gone
                    state[at + 2] = count
                    marks = sub(marks, 1, from - 1) .. sub(marks, from + 6 * gone)
                end
            end
            from = from + 6 * count
        end
        return marks, moved
    end

    -- When `needed` of the units of record `j` will have stopped counting.
    local function frees_at(state, marks, j, needed, precision)
        local n, from = state[1] % 256, 1
        for k = 1, j - 1 do from = from + 6 * state[2 + 3 * n + 4 * k] end
        local at = 3 * n + 4 * j
        local ends, base, newest = state[1 + n + 2 * j], state[at + 1], state[at + 3]
        local low, high = 0, state[at + 2]
        while low < high do
            local middle = floor((low + high) / 2)
            local total = unbytes('<I4', marks, from + 6 * middle)
            if (total - base) % 4294967296 >= needed then high = middle else low = middle + 1 end
        end
        if low == state[at + 2] then return ends end
        local _, label = unbytes('<I4I2', marks, from + 6 * low)
        return ends - (newest - label) % 65536 * precision
    end

    -- Takes `cost` units (0: none) from a settled state and stores it whole.
    local function rewritten(key, state, marks, terms, limits, cost, now, moved)
        local n, from, till, last = state[1] % 256, 1, math.huge, 0
        for j = 1, limits do
            local at = 3 * n + 4 * j
            local precision, span = terms[3 * j - 1], terms[3 * j]
            local units, ends, count = state[2 + j], state[1 + n + 2 * j], state[at + 2]
            local began = precision > 0 and now - now % precision or now
            if cost > 0 and units == 0 then
                ends = began + span
            elseif cost > 0 and precision > 0 and began + span > ends then
                -- The newest sub-bucket has ended: it leaves a mark behind those of its record.
                local mark = bytes_of('<I4I2', (state[at + 1] + units) % 4294967296, state[at + 3])
                local after = from + 6 * count
                marks = sub(marks, 1, after - 1) .. mark .. sub(marks, after)
                local gap = (began + span - ends) / precision
                count, ends = count + 1, began + span
                state[at + 2], state[at + 3] = count, (state[at + 3] + gap) % 65536
                state[2 + n + 2 * j] = state[2 + n + 2 * j] + gap
            end
            state[2 + j], state[1 + n + 2 * j] = units + cost, ends
            till = min(till, ends - state[2 + n + 2 * j] * precision,
                precision > 0 and ends - span + precision or ends)
            from = from + 6 * count
        end
        state[2] = till
        for j = 1, n do last = max(last, state[1 + n + 2 * j]) end
        -- Moved labels need a TTL in the time that runs now. A second more than needed, so that it
        -- need not be set with each sub-bucket.
        local keep = last <= state[3 + 3 * n] and not moved
        if not keep then state[3 + 3 * n] = last + 1000000 end
        local value = bytes_of(format_of(n), unpack(state, 1, 3 + 7 * n)) .. marks
        -- Redis 5 has no KEEPTTL and refuses; there the TTL is set each time.
        if keep and redis.pcall('SET', key, value, 'KEEPTTL').ok then return end
        redis.call('SET', key, value, 'PX',
            string.format('%.0f', math.ceil((state[3 + 3 * n] - now) / 1000)))
    end

    -- A value under our name that is not ours: a fault of ours, or a hand. Counting anew would hide
    -- it and admit more; with an error the proxy's failure policy decides, and tells. So that
    -- nobody is stuck with it for ever, it expires as a state would.
    local function unreadable(key, terms, limits)
        local longest = 0
        for j = 1, limits do longest = max(longest, terms[3 * j]) end
        if redis.call('PTTL', key) == -1 then
            redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(longest / 1000)))
        end
        return redis.error_reply('TIDEGATE unreadable state in ' .. key)
    end

    return opened, arranged, settled, frees_at, rewritten, unreadable
end

local request = ARGV[1]
local now = ARGV[2] and tonumber(ARGV[2])
local server_clock = not now
if server_clock then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end

-- MGET takes a key of another type for none, and a state then replaces it: one loss of what was
-- counted, as when the key had been deleted.
local values = call('MGET', unpack(KEYS))
-- Tables grow step by step, and each step costs as much as a limit: this one is made at size.
local answer, answered = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0
local denied, retry_at = false, now
local opened, arranged, settled, frees_at, rewritten, unreadable
-- Of states that had to be settled: the bytes of their marks, their terms, which were moved.
local marks_of, terms_of, moved_of, any_moved
local cost, at = unbytes('<I8', request)
local key = 0
while key < #KEYS do
    local run, limits, layout, width, terms_at = unbytes('<I1I1I4d', request, at)
    -- The usual numbers are written out: to put a format together costs as much as using it.
    local terms_format, state_format
    if limits == 3 then
        terms_format, state_format = '<I4ddI4ddI4dd', '<I4dI4I4I4dI2dI2dI2'
    elseif limits == 1 then
        terms_format, state_format = '<I4dd', '<I4dI4dI2'
    else
        terms_format = '<' .. rep('I4dd', limits)
        state_format = '<I4d' .. rep('I4', limits) .. rep('dI2', limits)
    end
    local terms = {unbytes(terms_format, request, terms_at)}
    at = terms_at + 20 * limits
    for i = key + 1, key + run do
        local value, state = values[i], nil
        if value and #value >= 12 + 14 * limits then
            state = {unbytes(state_format, value)}
            local rest = state[2] - now
            if state[1] ~= layout or not (rest > 0 and rest <= width) then state = nil end
        end
        local n, marks = limits, nil
        if not state then
            local moved
            if not opened then
                opened, arranged, settled, frees_at, rewritten, unreadable = long_way()
            end
            if value then
                state, marks = opened(value)
                if not state then return unreadable(KEYS[i], terms, limits) end
            end
            if not state or state[1] ~= layout then
                local ids = {unbytes('<' .. rep('I4', limits), request, at)}
                ids[limits + 1] = nil
                state, marks = arranged(state or {0}, marks or '', ids, layout, now)
            end
            marks, moved = settled(state, marks, terms, limits, now, server_clock)
            n = state[1] % 256
            marks_of, terms_of, moved_of = marks_of or {}, terms_of or {}, moved_of or {}
            marks_of[i], terms_of[i], moved_of[i] = marks, terms, moved
            any_moved = any_moved or moved
        end
        for j = 1, limits do
            local quota, precision = terms[3 * j - 2], terms[3 * j - 1]
            local units = state[2 + j]
            local next_free
            if units > 0 then
                next_free = state[1 + n + 2 * j] - state[2 + n + 2 * j] * precision
            else
                next_free = (precision > 0 and now - now % precision or now) + terms[3 * j]
            end
            local over = units + cost - quota
            if over > 0 then
                denied = true
                local frees = next_free  -- of one unit, whichever sub-bucket is the oldest
                if cost > quota then
                    frees = math.huge
                elseif over > 1 then
                    if not opened then
                        opened, arranged, settled, frees_at, rewritten, unreadable = long_way()
                    end
                    local whole, whole_marks = state, marks
                    if not marks then whole, whole_marks = opened(value) end
                    if not whole then return unreadable(KEYS[i], terms, limits) end
                    frees = frees_at(whole, whole_marks, j, over, precision)
                end
                if frees > retry_at then retry_at = frees end
            end
            answer[answered + 1], answer[answered + 2] = quota - units, next_free - now
            answered = answered + 2
        end
        values[i] = state
    end
    key, at = key + run, at + 4 * limits
end

if not denied and cost > 0 or any_moved then
    for i = 1, #KEYS do
        local state = values[i]
        if marks_of and marks_of[i] then
            if not denied or moved_of[i] then
                rewritten(KEYS[i], state, marks_of[i], terms_of[i], (#terms_of[i] - 1) / 3,
                    denied and 0 or cost, now, moved_of[i])
            end
        elseif not denied and cost > 0 then
            -- Only the units change, and the TTL stays.
            local n = state[1] % 256
            for field = 3, 2 + n do state[field] = state[field] + cost end
            call('SETRANGE', KEYS[i], '12', bytes_of(n == 3 and '<I4I4I4' or '<' .. rep('I4', n),
                unpack(state, 3, 2 + n)))
        end
    end
end

local retry = denied and retry_at - now or 0
if retry == math.huge then retry = -1 end
return bytes_of(answered == 12 and '<I1i8i8I8i8I8i8I8i8I8i8I8i8I8' or
    '<I1i8' .. rep('i8I8', answered / 2), denied and 0 or 1, retry, unpack(answer, 1, answered))
