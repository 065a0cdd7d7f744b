-- What is kept for one identifier under one policy: a packed string. In every script, behind
-- the short way.
--
--   head     layout I4 (which records, in which order: 256 * hash + how many), generation I4 (drawn
--            when the state is made: units are given back only to the state they came from)
--   units    of each record: I4. Side by side, as most requests change nothing else
--   expiry   d: what the key's TTL covers
--   records  of each: ends d, oldest d, base I4, marks I2, gone I2
--   names    of each: id I4, bytes of a mark I1
--   marks    of the last record, then of the one before, ...; oldest first: total I4 and label (I2,
--            or d in a log)
--
-- A window counts `units`, as of when this was written; `ends` is when its newest sub-bucket stops
-- counting, `oldest` when the oldest one with units does, 0 if none has. A mark is a sub-bucket
-- that ended: the total of all units taken until then, `base` being the total before the oldest mark
-- that counts. So what counts is the difference of two totals, found by bisection, and neither a
-- denial nor a long idle time walks through expired sub-buckets. The first `gone` marks count no
-- more. A label is the number of a sub-bucket modulo 2^16; in a log, whose sub-buckets are
-- microseconds, the time itself.
-- A bucket (gcra, leaky_bucket) has parts and tat; see there. A schedule has in `ends`
-- when its last moment goes, in `oldest` the time of its newest request.
--
-- Numbers are doubles: everything is an integer below 2^53, and a - a % b is exact there.

local function decimal(number)
    return string.format('%.0f', number)
end

-- The records of a state; nothing if the value is no state.
local function opened(value)
    local unbytes, sub = struct.unpack, string.sub
    if #value < 16 then return nil end
    local layout, generation = unbytes('<I4I4', value)
    local n = layout % 256
    local from = 17 + 33 * n
    if #value < from - 1 then return nil end
    local expiry = unbytes('<d', value, 9 + 4 * n)
    if not (expiry >= 0 and expiry < 9007199254740992) then return nil end
    local state = {layout = layout, generation = generation, expiry = expiry}
    for k = n, 1, -1 do
        local units = unbytes('<I4', value, 5 + 4 * k)
        local ends, oldest, base, count, gone = unbytes('<ddI4I2I2', value, 4 * n + 24 * k - 7)
        local id, size = unbytes('<I4I1', value, 12 + 28 * n + 5 * k)
        local till = from + size * count
        if not (ends >= 0 and ends < 9007199254740992 and math.abs(oldest) < 9007199254740992) or
            gone > count or till > #value + 1 then
            return nil
        end
        state[k] = {
            id = id, size = size, units = units, ends = ends, oldest = oldest, base = base,
            marks = sub(value, from + size * gone, till - 1),
        }
        from = till
    end
    return from == #value + 1 and state or nil
end

-- Stores a state. Its key lives at least until no record holds anything: the TTL is never made
-- shorter, but where the clock was put back, and left alone where it is long enough. A second more
-- than needed, so that it need not be set with each sub-bucket.
local function store(key, state, now)
    local bytes_of, n = struct.pack, #state
    -- Marks come last, those of the last record first.
    local units, records, names, marks, last = {}, {}, {}, {}, 0
    for k = 1, n do
        -- What was only looked at stays as it was: what has expired may count again should the clock
        -- be put back, as it does for who never wrote.
        local record = state[k].untouched or state[k]
        local count = record.size > 0 and #record.marks / record.size or 0
        units[k] = record.units
        records[k] = bytes_of('<ddI4I2I2', record.ends, record.oldest, record.base, count, 0)
        names[k] = bytes_of('<I4I1', record.id, record.size)
        marks[k] = record.marks
        if record.ends >= last then last = record.ends + 1 end
    end
    local keep = last <= state.expiry and not state.moved
    if not keep then state.expiry = last + 1000000 end
    for k = 1, n / 2 do marks[k], marks[n + 1 - k] = marks[n + 1 - k], marks[k] end
    local value = table.concat({
        bytes_of('<I4I4' .. string.rep('I4', n), state.layout, state.generation, unpack(units)),
        bytes_of('<d', state.expiry), table.concat(records), table.concat(names), table.concat(marks),
    })
    -- Redis 5 has no KEEPTTL and refuses; there the TTL is set each time.
    if keep and redis.pcall('SET', key, value, 'KEEPTTL').ok then return end
    local left = state.expiry > now and state.expiry - now or 0
    redis.call('SET', key, value, 'PX', decimal(left / 1000 + 1))
end

-- Whether a key for which MGET answered nothing is not there. It answers nothing for a key of another
-- type, too; SET would replace that by a fresh state.
local function is_absent(key)
    return redis.call('PTTL', key) == -2
end

-- A value under our name that is not ours: a fault of ours, or a hand. Counting anew would hide it
-- and admit more; with an error the proxy's failure policy decides, and tells. So that nobody is
-- stuck with it for ever, it expires within a day.
local function unreadable(key)
    if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, '86400000') end
    return redis.error_reply('TIDEGATE unreadable state in ' .. key)
end

-- Before a record is changed for looking at it only; see store().
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
