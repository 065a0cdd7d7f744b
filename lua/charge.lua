-- Charges requests to every limit of every identifier: looks at all, and only if all admit takes from
-- all. Before the first write everything has been read and checked.
--
-- KEYS, ARGV[1], ARGV[3]  as in `reading`
-- ARGV[2]  for each request: cost d, then for each limit of each run that is no window 16 bytes: the
--          time that the cost takes and its parts d d (g, k), the moment and - d d (s, d), the slot (c)
--
-- Answers  now d; for each request: what admits it I1 (1: what is enforced, 2: what is in shadow) and
--          when the windows would d; then, as it stood before the first of them took anything (but
--          after what counts the denied), for each state its generation d and for each limit two
--          numbers d d:
--            windows    units, and when the next is free; where there are none, `ends` of the state
--            buckets    parts and tat
--            schedule   units at most in a window of the moment, -
--            slots      how many are held, and 1 if its own is among them
--          then, if a schedule denied, for each that was asked: the moment looked at d, how many
--          moments I2, and each by its length I1

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

-- Whether limit k of a run admits a request. Keeps in the limit what taking will need.
local function look(run, k, i, cost, number_at)
    local limit, record = run[k], run.states[i][k]
    local kind, quota = limit.kind, limit.quota
    if kind == 'w' or kind == 'l' then
        return record.units + cost <= quota
    elseif kind == 'g' or kind == 'k' then
        local time, parts = unbytes('<dd', requests, number_at)
        local admits, tat, tat_parts =
            look_bucket(record, quota, now, limit.second, limit.third, time, parts, kind == 'k')
        limit.after[i] = {tat, tat_parts}
        return admits
    elseif kind == 'c' then
        local slot = string.sub(requests, number_at, number_at + 15)
        local held, mine = slots_held(limit.sets[i], slot, now, limit.second, server_clock)
        record.units, record.oldest = held, mine and 1 or 0
        -- One slot, whatever the cost.
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
        local tat, parts = unpack(limit.after[i])
        -- With `count: all` the debt saturates at twice the burst, or where it was.
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

-- What a state says before a request that is admitted takes from it.
local function told_of(run)
    local told = ''
    for i = run.first, run.last do
        told = told .. struct.pack('<d', run.states[i].generation)
        for k, limit in ipairs(run) do
            local record = run.states[i][k]
            local bucket = limit.kind == 'g' or limit.kind == 'k'
            local second = (bucket or record.units == 0) and record.ends or record.oldest
            told = told .. struct.pack('<dd', record.units, second)
        end
    end
    return told
end

local function has_moments(limit)
    return limit.kind == 's' or limit.kind == 'd'
end

local function for_each_limit(cost, numbers_at, visit)
    for _, run in ipairs(runs) do
        for k, limit in ipairs(run) do
            for i = run.first, run.last do visit(run, k, i, cost, numbers_at) end
            if limit.kind ~= 'w' and limit.kind ~= 'l' then numbers_at = numbers_at + 16 end
        end
    end
    return numbers_at
end

-- Decides the requests one after the other.
local verdicts, told, explained, cost_at = '', '', '', 1
for request = 1, times do
    local cost, numbers_at = unbytes('<d', requests, cost_at)
    local denied, shadow_denied, by_schedule, retry_at = false, false, false, 0
    cost_at = for_each_limit(cost, numbers_at, function(run, k, i, _, number_at)
        if look(run, k, i, cost, number_at) then return end
        if run.shadow then shadow_denied = true else denied = true end
        by_schedule = by_schedule or has_moments(run[k]) and not run.shadow
    end)
    local function admits(run)
        return not denied and not (run.shadow and shadow_denied)
    end
    for_each_limit(cost, numbers_at, function(run, k, i, _, number_at)
        if cost > 0 and run[k].counts_all and not admits(run) then take_from(run, k, i, cost, number_at) end
    end)
    for_each_limit(cost, numbers_at, function(run, k, i)
        local limit, record = run[k], run.states[i][k]
        if not denied or run.shadow then return end
        local over = record.units + cost - limit.quota
        if (limit.kind == 'w' or limit.kind == 'l') and over > 0 and cost <= limit.quota then
            retry_at = math.max(retry_at, frees_at(record, over, limit.second, limit.third))
        elseif by_schedule and has_moments(limit) and not limit.skipped then
            explained = explained .. moments_from(limit.sets[i], limit.second, limit.moments[i])
        end
    end)
    if request == 1 then for _, run in ipairs(runs) do told = told .. told_of(run) end end
    for_each_limit(cost, numbers_at, function(run, k, i, _, number_at)
        if cost > 0 and admits(run) then take_from(run, k, i, cost, number_at) end
    end)
    verdicts = verdicts .. struct.pack('<I1d', (denied and 0 or 1) + (shadow_denied and 0 or 2), retry_at)
end
for _, run in ipairs(runs) do
    for i = run.first, run.last do
        if run.states[i].changed then store(KEYS[i], run.states[i], now) end
    end
end
return struct.pack('<d', now) .. verdicts .. told .. explained
