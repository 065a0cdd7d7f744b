-- The sliding window as it is usually kept in Redis, for comparison: a hash for each identifier with a
-- running count for each limit and a field for each sub-bucket in use.
--
-- KEYS     the identifiers' hashes
-- ARGV[1]  the limits, JSON: [[duration, precision, quota], ...], times in microseconds
-- ARGV[2]  the time in microseconds
-- ARGV[3]  the cost
--
-- Answers 1 if all limits of all identifiers admit, else 0.

local limits = cjson.decode(ARGV[1])
local now, cost = tonumber(ARGV[2]), tonumber(ARGV[3])
local longest, places = 0, {}

for _, key in ipairs(KEYS) do
    for _, limit in ipairs(limits) do
        local duration, precision, quota = limit[1], limit[2], limit[3]
        local blocks = math.ceil(duration / precision)
        local block = math.floor(now / precision)
        local first = block - blocks + 1
        local name = string.format('%.0f:%.0f:', duration, precision)
        local oldest = tonumber(redis.call('HGET', key, name .. 'oldest') or first)
        -- Looks for units that no longer count sub-bucket by sub-bucket, no further than all of
        -- them.
        local gone, fields = 0, {}
        for ended = oldest, math.min(first, oldest + blocks) - 1 do
            local field = name .. string.format('%.0f', ended)
            local units = redis.call('HGET', key, field)
            if units then
                gone = gone + tonumber(units)
                fields[#fields + 1] = field
            end
        end
        local count
        if #fields > 0 then
            redis.call('HDEL', key, unpack(fields))
            count = redis.call('HINCRBY', key, name .. 'count', -gone)
        else
            count = tonumber(redis.call('HGET', key, name .. 'count') or 0)
        end
        if count + cost > quota then return 0 end
        places[#places + 1] = {key, name, block, math.max(first, oldest)}
        longest = math.max(longest, duration + precision)
    end
end
for _, place in ipairs(places) do
    local key, name, block, oldest = unpack(place)
    redis.call('HSET', key, name .. 'oldest', string.format('%.0f', oldest))
    redis.call('HINCRBY', key, name .. 'count', cost)
    redis.call('HINCRBY', key, name .. string.format('%.0f', block), cost)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, math.ceil(longest / 1000)) end
return 1
