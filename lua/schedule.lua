-- schedule: a sorted set of the moments that were accepted, `moment:units`.

-- The most units that a half-open window of `duration` containing `moment` holds, or its day.
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
        -- The fullest windows begin at a moment that is taken, or at the one asked for.
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

-- The moments that may matter to those from `moment` on, packed for the proxy to say which would do.
-- Some thousands at most: it may not know.
local function moments_from(key, duration, moment)
    local from = decimal(moment - duration + 1)
    local members = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', '0', '4000')
    local packed = {struct.pack('<dI2', moment, #members)}
    for i, member in ipairs(members) do packed[i + 1] = struct.pack('<I1', #member) .. member end
    return table.concat(packed)
end

-- Gives when the last moment goes.
local function take_schedule(key, duration, now, moment, cost)
    local there = redis.call('ZRANGEBYSCORE', key, decimal(moment), decimal(moment))[1]
    if there then cost = cost + tonumber(string.match(there, ':(%d+)$')) end
    -- Never without a member in between: see slots.lua.
    redis.call('ZADD', key, decimal(moment), decimal(moment) .. ':' .. decimal(cost))
    if there then redis.call('ZREM', key, there) end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. decimal(now - duration))
    local last = tonumber(redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
    redis.call('PEXPIRE', key, decimal((last + duration - now) / 1000 + 1000))
    return last + duration
end

-- Time never runs backwards, unless the server's clock was put back by more than a window: true if so.
-- The moments stay, they are what clients asked for.
local function follow_newest(record, now, duration)
    if record.oldest - now <= duration then return false end
    record.oldest = now
    return true
end
