-- The state: what Redis keeps for one identifier under one policy, packed into one string. A record of
-- the state is one limit. docs/scripts.md shows the bytes of an example. All scripts include this file.
--
--   names       for each record: id of the limit I4, bytes of a mark I1
--   marks       of the last record, then of the one before, ...; the oldest mark first: total I4, label
--               (I2; in a log d). Of money: units d and base d, then the marks: total d, label I2. The fields
--               for units and base are zero there
-- The head follows. It comes last so that one SETRANGE can add a mark and replace the head:
--   units       I4 for each record. They are side by side, as most requests change nothing else
--   generation  I4: drawn when the state is made. Units are given back only to the state that they were
--               taken from
--   expiry      d: until when the TTL of the key lets the state live
--   records     for each: ends d, oldest d, base I4, marks I2, gone I2
--   layout      I4: which records, in which order (256 * hash + number of records)
--
-- d is a double, I4 an unsigned integer of four bytes; little-endian, as `<` in struct.pack. Times are
-- microseconds since 1970.
--
-- A window has `units` that count, as of when the state was written. `ends` is when its newest sub-bucket
-- stops counting, `oldest` when the oldest sub-bucket with units does (0: there is none). A mark is
-- a sub-bucket that has ended: its total is that of all units taken until then. `base` is the total
-- before the oldest mark that counts. So the units that count are the difference of two totals, which
-- bisection finds: neither a denial nor a long pause makes a script walk through ended sub-buckets. The
-- first `gone` marks count no more. A label is the number of a sub-bucket modulo 2^16; in a log, whose
-- sub-buckets are microseconds, it is the time.
-- A bucket (gcra, leaky_bucket) keeps parts in `units` and its tat in `ends`: see bucket.lua. A schedule
-- keeps in `ends` when its last moment expires, in `oldest` the time of its newest request.
--
-- Numbers in Lua are doubles. All values are integers below 2^53, and there a - a % b is exact.

local function decimal(number)
    return string.format('%.0f', number)
end

-- The state that a value holds, with its records; nil if the value is no state.
local function opened(value)
    local unbytes, sub = struct.unpack, string.sub
    if #value < 16 then return nil end
    local layout = unbytes('<I4', value, #value - 3)
    local n = layout % 256
    local from, head = 5 * n + 1, #value - 28 * n - 15
    if n == 0 or head < from then return nil end
    local generation, expiry = unbytes('<I4d', value, head + 4 * n)
    if not (expiry >= 0 and expiry < 9007199254740992) then return nil end
    local state = {layout = layout, generation = generation, expiry = expiry}
    for k = n, 1, -1 do
        local units = unbytes('<I4', value, head + 4 * k - 4)
        local ends, oldest, base, count, gone = unbytes('<ddI4I2I2', value, head + 4 * n + 24 * k - 12)
        local id, size = unbytes('<I4I1', value, 5 * k - 4)
        if size == 10 then
            if from + 16 > head then return nil end
            units, base, from = unbytes('<dd', value, from)
            if not (units >= 0 and units < 4503599627370496 and base >= 0 and base < 4503599627370496) then
                return nil
            end
        end
        local till = from + size * count
        if not (ends >= 0 and ends < 9007199254740992 and math.abs(oldest) < 9007199254740992) or
            gone > count or till > head then
            return nil
        end
        state[k] = {
            id = id, size = size, units = units, ends = ends, oldest = oldest, base = base,
            marks = sub(value, from + size * gone, till - 1),
        }
        from = till
    end
    return from == head and state or nil
end

-- Writes a state. Its key lives at least until no record holds anything. The TTL stays where it is long
-- enough, and becomes shorter only when the clock was put back. It is a second longer than needed, so
-- that not every new sub-bucket needs a new one.
local function store(key, state, now)
    local bytes_of, n = struct.pack, #state
    local units, records, names, marks, last = {}, {}, {}, {}, 0
    for k = 1, n do
        -- A record that the request took nothing from is written as it was read: units that have
        -- expired count again if the clock is put back.
        local record = state[k].untouched or state[k]
        local count = record.size > 0 and #record.marks / record.size or 0
        units[k] = record.units
        records[k] = bytes_of('<ddI4I2I2', record.ends, record.oldest, record.base, count, 0)
        names[k] = bytes_of('<I4I1', record.id, record.size)
        marks[k] = record.marks
        if record.size == 10 then
            marks[k] = bytes_of('<dd', record.units, record.base) .. record.marks
            units[k], records[k] = 0, bytes_of('<ddI4I2I2', record.ends, record.oldest, 0, count, 0)
        end
        if record.ends >= last then last = record.ends + 1 end
    end
    local keep = last <= state.expiry and not state.moved
    if not keep then state.expiry = last + 1000000 end
    for k = 1, n / 2 do marks[k], marks[n + 1 - k] = marks[n + 1 - k], marks[k] end
    units[n + 1], units[n + 2] = state.generation, state.expiry
    local value = table.concat({
        table.concat(names), table.concat(marks), bytes_of('<' .. string.rep('I4', n) .. 'I4d', unpack(units)),
        table.concat(records), bytes_of('<I4', state.layout),
    })
    -- Redis 5 has no KEEPTTL and refuses; there the TTL is set each time.
    if keep and redis.pcall('SET', key, value, 'KEEPTTL').ok then return end
    local left = state.expiry > now and state.expiry - now or 0
    redis.call('SET', key, value, 'PX', decimal(left / 1000 + 1))
end

-- Whether a key for which MGET answered nothing does not exist. MGET answers nothing for a key of another
-- type, too, and SET would replace that key by a new state.
local function is_absent(key)
    return redis.call('PTTL', key) == -2
end

-- The answer where a key holds something else than a state. Counting from zero would hide the fault and
-- admit too much; after an error the proxy's failure policy decides, and the proxy logs it. The key
-- expires within a day, so that its identifier is not blocked for ever.
local function unreadable(key)
    if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, '86400000') end
    return redis.error_reply('TIDEGATE unreadable state in ' .. key)
end

-- Notes a record before it is changed only for looking at it; see store().
local function keep_untouched(record)
    record.untouched = {
        id = record.id, size = record.size, units = record.units, ends = record.ends,
        oldest = record.oldest, base = record.base, marks = record.marks,
    }
end

local function server_time()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end
