-- Counts what a proxy admitted in process while Redis was away: adds units to the sub-buckets in which they
-- were taken, as far as those still count. Nothing is denied; units above the quota deny later requests.
--
-- KEYS[1]  the state
-- ARGV[1], ARGV[3]  as in read_states.lua: one state, no request
-- ARGV[2]  the time of the proxy's clock d, then for each limit how many portions were taken I2, each
--            windows    when its sub-bucket began d (if the window begins with its first request: when
--                       that came; of a day, week or month: when that ends) and units I4
--            buckets    one: the time that the units take and its parts d d; the tat, had the bucket
--                       been empty before, d d; the most that the bucket may then hold d d; when the
--                       last request came d
--            others     none
--
-- Answers 1 if something was counted, else 0.

local report = ARGV[2]
local run = runs[1]
local state = run.states[1]
local sent, portions_at = unbytes('<d', report)

-- The clocks of proxy and Redis count as equal if they differ by less than a second: the command has
-- travelled meanwhile.
local behind = now - sent
if math.abs(behind) < 1000000 then behind = 0 end

-- When, by the clock of Redis, the last unit of a sub-bucket may have been taken; never later than now.
local function here(began, width)
    return math.min(behind == 0 and began or began + width - 1 + behind, now)
end

-- Windows that begin with their first request do not overlap, nor do days, weeks and months: only the
-- current one counts.
local function report_opened(record, width, span, portions)
    local units = record.units
    for _, portion in ipairs(portions) do
        local ends = width < 0 and portion.began or here(portion.began, 1) + span
        -- A proxy whose clock is days behind names a period that is over here, and was not there.
        if width < 0 and behind > 86400000000 and ends + behind > now then
            ends = end_of_new(now, width, span)
        end
        if ends > now then
            if record.units == 0 then record.ends = math.max(ends, record.ends) end
            record.units = math.min(record.units + portion.units, 4294967295)
        end
    end
    record.oldest = record.units > 0 and record.ends or 0
    return record.units > units
end

-- The units of each sub-bucket that counts, by the time when it stops counting; the list of those times;
-- and a function that adds units to one.
local function sub_buckets(record, width, span)
    local held, ends, before, size = {}, {}, record.base, record.size
    local function add(till, units)
        if not held[till] then held[till], ends[#ends + 1] = 0, till end
        held[till] = held[till] + units
    end
    for mark = 1, #record.marks / size do
        local total, label = unbytes(mark_format(record), record.marks, 1 + size * (mark - 1))
        add(end_of(record, label, width, span), (total - before) % 4294967296)
        before = total
    end
    -- Even without units, as the time of a record never runs backwards.
    if record.ends > now then add(record.ends, (record.base + record.units - before) % 4294967296) end
    return held, ends, add
end

local function report_window(record, width, span, portions)
    local held, ends, add = sub_buckets(record, width, span)
    local newest, left = math.max(now, record.ends - span), 4294967295 - record.units
    local counted = false
    for _, portion in ipairs(portions) do
        local at = here(portion.began, width)
        local till, units = at - at % width + span, math.min(portion.units, left)
        if till > newest and units > 0 then
            add(till, units)
            left, counted = left - units, true
        end
    end
    if not counted then return false end
    table.sort(ends)
    local format, wrap = mark_format(record)
    local marks, total, oldest = {}, record.base, 0
    -- A log keeps 1,001 moments: see take() in window.lua.
    for i = record.size == 12 and math.max(1, #ends - 1000) or 1, #ends do
        local till = ends[i]
        total = total + held[till]
        if held[till] > 0 and oldest == 0 then oldest = till end
        if held[till] > 0 and i < #ends then
            marks[#marks + 1] =
                struct.pack(format, total % 4294967296, (till - span) / width % wrap)
        end
    end
    record.marks, record.units = table.concat(marks), total - record.base
    record.ends, record.oldest = ends[#ends], oldest
    return true
end

local function is_later(us, parts, than, than_parts)
    return us > than or us == than and parts > than_parts
end

-- Moves the tat of a bucket by the time that the units take, and at least to where it would be if the
-- bucket had been empty.
local function report_bucket(record, limit, portion)
    local quota = limit.quota
    local tat, parts = record.ends + portion.time, record.units + portion.parts
    if parts >= quota then tat, parts = tat + 1, parts - quota end
    local alone = portion.tat + behind
    if is_later(alone, portion.tat_parts, tat, parts) then tat, parts = alone, portion.tat_parts end
    local most = now + portion.most
    if is_later(tat, parts, most, portion.most_parts) then tat, parts = most, portion.most_parts end
    if not (is_later(tat, parts, record.ends, record.units) and is_later(tat, parts, now, 0)) then
        return false
    end
    record.ends, record.units = tat, parts
    if limit.kind == 'k' then
        -- The last request of the line is not known here any more.
        record.oldest = -math.max(math.abs(record.oldest), here(portion.last, 1))
    end
    return true
end

local function next_portion(kind)
    local portion = {}
    if kind == 'w' or kind == 'l' then
        portion.began, portion.units, portions_at = unbytes('<dI4', report, portions_at)
    else
        portion.time, portion.parts, portion.tat, portion.tat_parts, portion.most,
            portion.most_parts, portion.last, portions_at = unbytes('<ddddddd', report, portions_at)
    end
    return portion
end

for k, limit in ipairs(run) do
    local record, portions, count = state[k], {}, 0
    count, portions_at = unbytes('<I2', report, portions_at)
    for i = 1, count do portions[i] = next_portion(limit.kind) end
    local counted = false
    if count == 0 then
        counted = false
    elseif limit.kind == 'g' or limit.kind == 'k' then
        counted = report_bucket(record, limit, portions[1])
    elseif limit.second <= 0 then
        counted = report_opened(record, limit.second, limit.third, portions)
    else
        counted = report_window(record, limit.second, limit.third, portions)
    end
    if counted then record.untouched, state.changed, state.counted = nil, true, true end
end
if state.changed then store(KEYS[1], state, now) end
return state.counted and 1 or 0
