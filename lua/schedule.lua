-- schedule: a sorted set of the moments that were accepted. Score: the moment; member: `moment:units`.

-- The most units in any half-open window of `duration` that contains `moment`; with `by_day`, the units of
-- its day.
local function look_schedule(key, duration, moment, by_day)
    local from, to = moment - duration + 1, moment + duration - 1
    if by_day then
        from = moment - moment % duration
        to = from + duration - 1
    end
    local times, units, begins = {}, {}, {}
    for i, member in ipairs(redis.call('ZRANGEBYSCORE', key, decimal(from), decimal(to))) do
        local time, count = string.match(member, '^(%d+):(%d+)$')
        times[i], units[i] = tonumber(time), tonumber(count)
        -- The fullest window begins at an accepted moment or at the one that is asked for.
        if not by_day and times[i] < moment then begins[i] = times[i] end
    end
    begins[#begins + 1] = by_day and from or moment
    local low, high, sum, most = 1, 0, 0, 0
    for _, begin in ipairs(begins) do
        while high < #times and times[high + 1] < begin + duration do
            high = high + 1
            sum = sum + units[high]
        end
        while low <= high and times[low] < begin do
            sum = sum - units[low]
            low = low + 1
        end
        most = math.max(most, sum)
    end
    return math.min(most, 4294967295)
end

-- The accepted moments that matter for moments from `moment` on, packed: from them the proxy computes the
-- first moment that would be accepted. At most 4,000: with more the proxy names none.
local function moments_from(key, duration, moment)
    local from = decimal(moment - duration + 1)
    local members = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', '0', '4000')
    local packed = {struct.pack('<dI2', moment, #members)}
    for i, member in ipairs(members) do packed[i + 1] = struct.pack('<I1', #member) .. member end
    return table.concat(packed)
end

-- Adds units to a moment. Returns when the last moment expires.
local function take_schedule(key, duration, now, moment, cost)
    local there = redis.call('ZRANGEBYSCORE', key, decimal(moment), decimal(moment))[1]
    if there then cost = cost + tonumber(string.match(there, ':(%d+)$')) end
    -- ZADD before ZREM: the set is never empty in between. See take_slot() in slots.lua.
    redis.call('ZADD', key, decimal(moment), decimal(moment) .. ':' .. decimal(cost))
    if there then redis.call('ZREM', key, there) end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. decimal(now - duration))
    local last = tonumber(redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
    redis.call('PEXPIRE', key, decimal((last + duration - now) / 1000 + 1000))
    return last + duration
end

-- The time of a record never runs backwards, unless the clock of Redis was put back by more than a window;
-- returns whether it was. The moments stay: clients asked for them.
local function follow_newest(record, now, duration)
    if record.oldest - now <= duration then return false end
    record.oldest = now
    return true
end
