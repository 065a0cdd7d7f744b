-- What the short way and the middle way begin with. Both are for one request and plain windows alone,
-- in states that know the limits asked about and no others, the clock not put back. What they do not
-- understand they leave to the long way below, having written nothing. They do what `charge` and
-- `window` do, but make no function, and no string that is not stored or sent; Redis hashes every byte
-- of every string that Lua makes.

local unbytes, bytes_of, sub, call = struct.unpack, struct.pack, string.sub, redis.call
local asked = ARGV[1]
local now = ARGV[3] and tonumber(ARGV[3])
if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local values, cost = call('MGET', unpack(KEYS)), unbytes('<d', ARGV[2])
local understood, denied, retry_at = cost > 0, false, 0
-- Where the next policy's part of `asked` begins, and how many states of the last one are to come.
local run_at, of_run = 3, 0
-- What each state becomes, and how it is written: a TTL, KEEPTTL, or the offset from which on it is
-- overwritten. Tables grow step by step, and each step costs as much as a limit: these are made at size.
local new, ttls = {0, 0, 0, 0}, {0, 0, 0, 0}
local answer
