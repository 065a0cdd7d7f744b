-- concurrency: a sorted set of the slots that are held, by when each is given up unless it is renewed.

-- How many slots are held, and whether one of them is this one.
local function slots_held(key, slot, now, lease, server_clock)
    if server_clock then
        -- A clock that was put back: slots whose holders are gone must not outlive the old time.
        -- Those that live are renewed anyway.
        local late = redis.call('ZRANGEBYSCORE', key, '(' .. decimal(now + 2 * lease), '+inf')
        for _, one in ipairs(late) do redis.call('ZADD', key, decimal(now + lease), one) end
    end
    local held = redis.call('ZCOUNT', key, '(' .. decimal(now), '+inf')
    local own = held > 0 and redis.call('ZSCORE', key, slot)
    return held, own and tonumber(own) > now or false
end

local function take_slot(key, slot, now, lease)
    -- In this order: while its slot of Redis Cluster moves away, a key that is gone is not made anew.
    redis.call('ZADD', key, decimal(now + lease), slot)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', decimal(now))
    redis.call('PEXPIRE', key, decimal(lease / 1000 + 1000))
end
