-- Keeps slots of concurrency for a time although their requests have ended (`hold_aborted`): the upstream
-- may still be working. A slot that is not held any more is left alone.
--
-- KEYS     sorted sets
-- ARGV[1]  for each a slot, 16 bytes
-- ARGV[2]  for how long, in microseconds
-- ARGV[3]  the time in microseconds; without it the server's own
local time = tonumber(ARGV[2])
local now = ARGV[3] and tonumber(ARGV[3]) or server_time()
for i, key in ipairs(KEYS) do
    local slot = string.sub(ARGV[1], 16 * i - 15, 16 * i)
    local till = redis.call('ZSCORE', key, slot)
    if till and tonumber(till) > now then
        -- ZADD before ZREM: see take() in slots.lua.
        redis.call('ZADD', key, decimal(now + time), kept_slot(slot, time))
        redis.call('ZREM', key, slot)
        keep_set(key, time)
    end
end
return 0
