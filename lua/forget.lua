-- Forgets what is counted for an identifier (`tidegate reset`). Slots of concurrency stay: their requests
-- are in flight.
--
-- KEYS     the states, then the sorted sets of schedules
--
-- Answers  for each key 1 if it existed, else 0

local forgotten = {}
for i, key in ipairs(KEYS) do
    -- A TTL of 0 deletes the key, and charging needs the right to PEXPIRE anyway.
    forgotten[i] = redis.call('PEXPIRE', key, '0') == 1 and '1' or '0'
end
return table.concat(forgotten)
