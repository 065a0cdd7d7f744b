-- How many proxies share this Redis: each says every now and then that it is there.
--
-- KEYS[1]  sorted set of proxies by the time (milliseconds) of their last word
-- ARGV[1]  this proxy's name
-- ARGV[2]  how long a word is good for, in milliseconds
-- Returns how many proxies are alive, this one included.

local ttl = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ttl))
redis.call('PEXPIRE', KEYS[1], ttl)
return redis.call('ZCARD', KEYS[1])
