-- Settles a reservation once: the first call decides with which cost, and every later call learns it. The
-- script that corrects the counts also writes the claim, into the hash slot of the counts. So Redis has both
-- or neither, also after a failover.
--
-- KEYS     the last one: the claim; those before it are correct()'s, if there is something to correct
-- ARGV     the last two: for how many milliseconds Redis keeps the claim, and the cost; before them those
--          of correct()
--
-- Answers  the cost with which the reservation is settled; behind a + where this call has settled it
--
-- scripts.cpp puts another file behind this one as the function correct(), and then settle_less.lua or
-- settle_more.lua, which call it.

local cost, kept_for = table.remove(ARGV), table.remove(ARGV)
local claim = table.remove(KEYS)
-- The proxy's user in Redis needs no right to GET.
local settled_with = redis.call('MGET', claim)[1]
if settled_with then return settled_with end
