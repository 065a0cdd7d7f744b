-- Charges requests to every limit of every identifier: looks at all limits, and only if all admit takes
-- from all. A script that fails half-way is not rolled back, so everything is read and checked before
-- the first write.
--
-- KEYS, ARGV[1], ARGV[3]  as in read_states.lua
-- ARGV[2]  for each request: cost d, then for each limit of each run that is no window 16 bytes: the
--          time that the cost takes and its parts d d (g, k), the moment and - d d (s, d), the slot (c)
--
-- Answers  now d; for each request: which policies admit it I1 (1: the enforced ones, 2: those in
--          shadow) and, after a denial, when the windows admit it d; then for each state its generation d
--          and for each limit two numbers d d. They say how the limit stood before the first request
--          took anything, but after limits with `count: all` have counted a denial:
--            windows    units, and when the next one is free; without units `ends` of the record
--            buckets    parts and tat
--            schedule   units in the fullest window of the moment, -
--            slots      how many are held, and 1 if the slot of the request is one of them
--          then, if a schedule denied, for each schedule that was asked: the moment looked at d, the
--          number of accepted moments I2, and each of them with its length I1

local requests = ARGV[2]

local function look_at_moment(limit, record, i, cost, asked_for)
    limit.skipped = limit.third == 1 and asked_for < now
    record.units = 0
    if limit.skipped then return true end
    limit.moments[i] = math.max(asked_for, now, record.oldest)
    record.units =
        look_schedule(limit.sets[i], limit.second, limit.moments[i], limit.kind == 'd')
    return record.units + cost <= limit.quota
end

local function look_at_bucket(limit, record, number_at)
    local time, parts = unbytes('<dd', requests, number_at)
    return look_bucket(
        record, limit.quota, now, limit.second, limit.third, time, parts, limit.kind == 'k')
end

-- Whether limit k of a run admits a request.
local function look(run, k, i, cost, number_at)
    local limit, record = run[k], run.states[i][k]
    local kind, quota = limit.kind, limit.quota
    if kind == 'w' or kind == 'l' then
        return record.units + cost <= quota
    elseif kind == 'g' or kind == 'k' then
        return (look_at_bucket(limit, record, number_at))
    elseif kind == 'c' then
        local slot = string.sub(requests, number_at, number_at + 15)
        local held, mine = slots_held(limit.sets[i], slot, now, limit.second, server_clock)
        record.units, record.oldest = held, mine and 1 or 0
        -- A request holds one slot, whatever its cost.
        if cost == 0 then return held <= quota end
        return mine or held < quota
    end
    return look_at_moment(limit, record, i, cost, unbytes('<d', requests, number_at))
end

local function take_from(run, k, i, cost, number_at)
    local limit, state = run[k], run.states[i]
    local record, kind = state[k], limit.kind
    if kind == 'w' or kind == 'l' then
        take(record, now, limit.second, limit.third, cost)
    elseif kind == 'g' or kind == 'k' then
        local _, tat, parts = look_at_bucket(limit, record, number_at)
        -- With `count: all` the bucket fills to twice the burst at most, or stays where it was.
        local most, most_parts = now + 2 * limit.second, 2 * limit.third
        if most_parts >= limit.quota then most, most_parts = most + 1, most_parts - limit.quota end
        if record.ends > most or record.ends == most and record.units > most_parts then
            most, most_parts = record.ends, record.units
        end
        if limit.counts_all and (tat > most or tat == most and parts > most_parts) then
            tat, parts = most, most_parts
        end
        take_bucket(record, now, tat, parts, kind == 'k')
    elseif kind == 'c' then
        take_slot(limit.sets[i], string.sub(requests, number_at, number_at + 15), now, limit.second)
        return
    elseif limit.skipped then
        return
    else
        record.ends = take_schedule(limit.sets[i], limit.second, now, limit.moments[i], cost)
        record.oldest = math.max(record.oldest, now)
    end
    state.changed = true
end

-- Describes the states of a run.
local function tell(run, told)
    local format = '<d' .. string.rep('dd', #run)
    for i = run.first, run.last do
        local state = run.states[i]
        local numbers = {state.generation}
        for k, limit in ipairs(run) do
            local record = state[k]
            local bucket = limit.kind == 'g' or limit.kind == 'k'
            numbers[2 * k] = record.units
            numbers[2 * k + 1] = (bucket or record.units == 0) and record.ends or record.oldest
        end
        told[#told + 1] = struct.pack(format, unpack(numbers))
    end
end

local function has_moments(limit)
    return limit.kind == 's' or limit.kind == 'd'
end

-- Where in ARGV[2] the numbers of the next limit begin.
local function behind(limit, numbers_at)
    return (limit.kind == 'w' or limit.kind == 'l') and numbers_at or numbers_at + 16
end

-- Whether an enforced policy denies, whether one in shadow does, whether a schedule does; and where in
-- ARGV[2] the numbers of the next request begin.
local function look_at_all(cost, numbers_at)
    local denied, shadow_denied, by_schedule = false, false, false
    for _, run in ipairs(runs) do
        for k, limit in ipairs(run) do
            for i = run.first, run.last do
                if look(run, k, i, cost, numbers_at) then
                    -- It admits.
                elseif run.shadow then
                    shadow_denied = true
                else
                    denied, by_schedule = true, by_schedule or has_moments(limit)
                end
            end
            numbers_at = behind(limit, numbers_at)
        end
    end
    return denied, shadow_denied, by_schedule, numbers_at
end

-- With `admitting`, takes from the policies that admit the request; else, of the policies that do not,
-- from the limits with `count: all`.
local function take_from_all(cost, numbers_at, denied, shadow_denied, admitting)
    for _, run in ipairs(runs) do
        local admits = not denied and not (run.shadow and shadow_denied)
        for k, limit in ipairs(run) do
            if admits == admitting and (admits or limit.counts_all) then
                for i = run.first, run.last do take_from(run, k, i, cost, numbers_at) end
            end
            numbers_at = behind(limit, numbers_at)
        end
    end
end

-- When all windows that deny would admit; and, if a schedule denies, the moments of each schedule.
local function explain(cost, by_schedule, explained)
    local retry_at = 0
    for _, run in ipairs(runs) do
        for k, limit in ipairs(run.shadow and {} or run) do
            local window = limit.kind == 'w' or limit.kind == 'l'
            for i = run.first, run.last do
                local record = run.states[i][k]
                local over = record.units + cost - limit.quota
                if window and over > 0 and cost <= limit.quota then
                    retry_at =
                        math.max(retry_at, frees_at(record, over, limit.second, limit.third))
                elseif by_schedule and has_moments(limit) and not limit.skipped then
                    explained[#explained + 1] =
                        moments_from(limit.sets[i], limit.second, limit.moments[i])
                end
            end
        end
    end
    return retry_at
end

-- Decides the requests one after the other.
local verdicts, told, explained, cost_at = {}, {}, {}, 1
for request = 1, request_count do
    local cost, numbers_at = unbytes('<d', requests, cost_at)
    local denied, shadow_denied, by_schedule, next_at = look_at_all(cost, numbers_at)
    if cost > 0 and (denied or shadow_denied) then
        take_from_all(cost, numbers_at, denied, shadow_denied, false)
    end
    local retry_at = denied and explain(cost, by_schedule, explained) or 0
    if request == 1 then for _, run in ipairs(runs) do tell(run, told) end end
    if cost > 0 and not denied then
        take_from_all(cost, numbers_at, denied, shadow_denied, true)
    end
    verdicts[request] = struct.pack('<I1d', (denied and 0 or 1) + (shadow_denied and 0 or 2), retry_at)
    cost_at = next_at
end
for _, run in ipairs(runs) do
    for i = run.first, run.last do
        if run.states[i].changed then store(KEYS[i], run.states[i], now) end
    end
end
return struct.pack('<d', now) .. table.concat(verdicts) .. table.concat(told) ..
    table.concat(explained)
