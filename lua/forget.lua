-- Forgets what is counted, all at once. Slots of concurrency are left: their requests are in flight.
--
-- KEYS  the states, then sorted sets of moments
--
-- Answers a letter for each key: 1 if there was something, else 0.

local forgotten = {}
for i, key in ipairs(KEYS) do
    -- What expires at once is deleted; and no right is needed that charging does not need, too.
    forgotten[i] = redis.call('PEXPIRE', key, '0') == 1 and '1' or '0'
end
return table.concat(forgotten)
