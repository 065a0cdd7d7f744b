-- concurrency: a sorted set of the slots that are held, by when each is given up unless it is renewed.
-- A slot is 16 bytes. One that is kept after its request has ended has 8 more: for how long.

local function kept_slot(slot, time)
    return slot .. struct.pack('<d', time)
end

-- How many slots are held, and whether one of them is this one.
local function slots_held(key, slot, now, lease, server_clock)
    if server_clock then
        -- A clock that was put back: slots whose holders are gone must not outlive the old time.
        -- Those that live are renewed anyway.
        local late = redis.call('ZRANGEBYSCORE', key, '(' .. decimal(now + 2 * lease), '+inf', 'WITHSCORES')
        for i = 1, #late, 2 do
            local time = #late[i] > 16 and struct.unpack('<d', late[i], 17) or lease
            if tonumber(late[i + 1]) > now + time then
                redis.call('ZADD', key, decimal(now + time), late[i])
            end
        end
    end
    local held = redis.call('ZCOUNT', key, '(' .. decimal(now), '+inf')
    local own = held > 0 and redis.call('ZSCORE', key, slot)
    return held, own and tonumber(own) > now or false
end

-- The set lives as long as what was just put into it; others in it may be held for longer.
local function keep_set(key, time)
    local wanted = time / 1000 + 1000
    if redis.call('PTTL', key) < wanted then redis.call('PEXPIRE', key, decimal(wanted)) end
end

local function take_slot(key, slot, now, lease)
    -- In this order: while its slot of Redis Cluster moves away, a key that is gone is not made anew.
    redis.call('ZADD', key, decimal(now + lease), slot)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', decimal(now))
    keep_set(key, lease)
end
