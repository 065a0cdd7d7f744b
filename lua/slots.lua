-- concurrency: a sorted set of the slots that requests hold. Score: when the hold of the slot ends unless
-- the proxy renews it; member: 16 bytes that name worker and request. A slot that is kept after its
-- request has ended has 8 more bytes: for how long, d.

--for hold
local function kept_slot(slot, time)
    return slot .. struct.pack('<d', time)
end

--for charge renew hold
-- Makes the set live at least as long as the slot that was just added.
local function keep_set(key, time)
    local wanted = time / 1000 + 1000
    if redis.call('PTTL', key) < wanted then redis.call('PEXPIRE', key, decimal(wanted)) end
end

--for charge give_back report inspect
algorithms.c = function()
--for charge report inspect
    local function open()
        return false
    end

--for charge
    -- How many slots are held, and whether `slot` is one of them.
    local function slots_held(key, slot, usual)
        if server_clock then
            -- If the clock of Redis was put back, slots of proxies that are gone must not stay until the
            -- old time comes again. Proxies that live renew theirs.
            local late =
                redis.call('ZRANGEBYSCORE', key, '(' .. decimal(now + 2 * usual), '+inf', 'WITHSCORES')
            for i = 1, #late, 2 do
                local time = #late[i] > 16 and struct.unpack('<d', late[i], 17) or usual
                if tonumber(late[i + 1]) > now + time then
                    redis.call('ZADD', key, decimal(now + time), late[i])
                end
            end
        end
        local held = redis.call('ZCOUNT', key, '(' .. decimal(now), '+inf')
        local own = held > 0 and redis.call('ZSCORE', key, slot)
        return held, own and tonumber(own) > now or false
    end

    local function look(limit, record, i, cost, at)
        local slot = string.sub(requests, at, at + 15)
        local held, mine = slots_held(limit.sets[i], slot, limit.second)
        record.units, record.oldest = held, mine and 1 or 0
        -- A request holds one slot, whatever its cost.
        if cost == 0 then return held <= limit.quota end
        return mine or held < limit.quota
    end

    local function take(limit, _, i, _, at)
        local key, time = limit.sets[i], limit.second
        -- ZADD first: a set without members is deleted, and while its hash slot moves to another node of a
        -- Redis Cluster, a deleted key cannot be made again.
        redis.call('ZADD', key, decimal(now + time), string.sub(requests, at, at + 15))
        redis.call('ZREMRANGEBYSCORE', key, '-inf', decimal(now))
        keep_set(key, time)
        return false
    end

    return {numbers = 16, has_set = true, open = open, look = look, take = take}
--for inspect
    local function count(limit, _, i)
        return redis.call('ZCOUNT', limit.sets[i], '(' .. decimal(now), '+inf'), 0, 0, 0
    end

    return {has_set = true, open = open, count = count}
--for give_back
    return {}
--for report
    return {has_set = true, open = open}
--for charge give_back report inspect
end
