-- concurrency: a sorted set of the slots that requests hold. Score: when the lease of the slot ends unless
-- the proxy renews it; member: 16 bytes that name worker and request. A slot that is kept after its
-- request has ended has 8 more bytes: for how long, d.

local function kept_slot(slot, time)
    return slot .. struct.pack('<d', time)
end

-- How many slots are held, and whether `slot` is one of them.
local function slots_held(key, slot, now, lease, server_clock)
    if server_clock then
        -- If the clock of Redis was put back, slots of proxies that are gone must not stay until the
        -- old time comes again. Proxies that live renew theirs.
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

-- Makes the set live at least as long as the slot that was just added.
local function keep_set(key, time)
    local wanted = time / 1000 + 1000
    if redis.call('PTTL', key) < wanted then redis.call('PEXPIRE', key, decimal(wanted)) end
end

local function take_slot(key, slot, now, lease)
    -- ZADD first: a set without members is deleted, and while its hash slot moves to another node of a
    -- Redis Cluster, a deleted key cannot be made again.
    redis.call('ZADD', key, decimal(now + lease), slot)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', decimal(now))
    keep_set(key, lease)
end
