-- schedule: a sorted set of the moments that were accepted. Score: the moment; member: `moment:units`. Windows
-- lie around each moment (s) or are days of UTC (d).

--for charge give_back report inspect
algorithms.s = function(letter)
    local by_day = letter == 'd'

--for charge report inspect
    -- The time of a record never runs backwards, unless the clock of Redis was put back by more than a window;
    -- returns whether it was. The moments stay: clients asked for them.
    local function open(limit, record)
        if not server_clock or record.oldest - now <= limit.second then return false end
        record.oldest = now
        return true
    end

--for charge inspect
    -- The accepted moments that matter for moments from that of state i on, packed: from them the proxy computes
    -- the first moment that would be accepted. At most 4,000: with more the proxy names none.
    local function moments(limit, i)
        local moment = limit.moments[i]
        local from = decimal(moment - limit.second + 1)
        local members =
            redis.call('ZRANGEBYSCORE', limit.sets[i], from, '+inf', 'LIMIT', '0', '4000')
        local packed = {struct.pack('<dI2', moment, #members)}
        for k, member in ipairs(members) do packed[k + 1] = struct.pack('<I1', #member) .. member end
        return table.concat(packed)
    end

--for charge
    -- The most units in any half-open window of `duration` that contains `moment`; by day, the units of its day.
    local function busiest(key, duration, moment)
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

    local function look(limit, record, i, cost, at)
        local asked_for = struct.unpack('<d', requests, at)
        limit.skipped = limit.third == 1 and asked_for < now
        record.units = 0
        if limit.skipped then return true end
        limit.moments[i] = math.max(asked_for, now, record.oldest)
        record.units = busiest(limit.sets[i], limit.second, limit.moments[i])
        return record.units + cost <= limit.quota
    end

    -- Adds units to the moment. `ends` of the record is when the last moment expires.
    local function take(limit, record, i, cost)
        if limit.skipped then return false end
        local key, duration, moment = limit.sets[i], limit.second, limit.moments[i]
        local there = redis.call('ZRANGEBYSCORE', key, decimal(moment), decimal(moment))[1]
        if there then cost = cost + tonumber(string.match(there, ':(%d+)$')) end
        -- ZADD before ZREM: the set is never empty in between. See take() in slots.lua.
        redis.call('ZADD', key, decimal(moment), decimal(moment) .. ':' .. decimal(cost))
        if there then redis.call('ZREM', key, there) end
        redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. decimal(now - duration))
        local last = tonumber(redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
        redis.call('PEXPIRE', key, decimal((last + duration - now) / 1000 + 1000))
        record.ends = last + duration
        record.oldest = math.max(record.oldest, now)
        return true
    end

    return {numbers = 16, has_set = true, open = open, look = look, take = take, moments = moments}
--for inspect
    local function count(limit, record, i)
        limit.moments[i] = math.max(now, record.oldest)
        return record.oldest, 0, 0, 0
    end

    return {has_set = true, open = open, count = count, moments = moments}
--for give_back
    local function give_back_to_set(key, moment, units)
        -- A key of another type must not keep the script from giving back the rest: pcall.
        local there = redis.pcall('ZRANGEBYSCORE', key, decimal(moment), decimal(moment))[1]
        if not there then return end
        local left = tonumber(string.match(there, ':(%d+)$')) - units
        -- ZADD before ZREM: see take() in slots.lua.
        if left > 0 then redis.call('ZADD', key, decimal(moment), decimal(moment) .. ':' .. decimal(left)) end
        redis.call('ZREM', key, there)
    end

    return {give_back_to_set = give_back_to_set}
--for report
    return {has_set = true, open = open}
--for charge give_back report inspect
end
algorithms.d = algorithms.s
