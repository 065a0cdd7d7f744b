-- Renews the holds of slots of concurrency. A slot whose hold has ended is left alone: another request
-- may have been admitted in its place.
--
-- KEYS     sorted sets
-- ARGV[1]  for each a slot, 16 bytes
-- ARGV[2]  how long a slot is held, in microseconds
-- ARGV[3]  the time in microseconds; without it the server's own
local time = tonumber(ARGV[2])
local now = ARGV[3] and tonumber(ARGV[3]) or server_time()
for i, key in ipairs(KEYS) do
    local slot = string.sub(ARGV[1], 16 * i - 15, 16 * i)
    local till = redis.pcall('ZSCORE', key, slot)
    if type(till) == 'string' and tonumber(till) > now then
        redis.call('ZADD', key, decimal(now + time), slot)
        keep_set(key, time)
    end
end
return 0
