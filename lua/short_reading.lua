-- What the short way and the middle way begin with. Both are for plain windows alone, in states that know
-- the limits asked about and no others, the clock not put back. What they do not understand they leave to
-- the long way below, having written nothing. They do what `charge` and `window` do, but make no function,
-- and no string that is not stored or sent; Redis hashes every byte of every string that Lua makes.
--
-- They take several requests of different identifiers, if each asks of the same policies: KEYS are the
-- states of the first, then those of the second and so on, ARGV[2] has a cost d for each. One after the
-- other is decided and written. The answer is then theirs in turn, of which one that was not understood
-- is now d and 4 I1 alone: it is to be asked again, by itself.

local unbytes, bytes_of, sub = struct.unpack, struct.pack, string.sub
local call, pcall, keys, asked = redis.call, redis.pcall, KEYS, ARGV[1]
local now = ARGV[3] and tonumber(ARGV[3])
if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
end
local values, states = call('MGET', unpack(keys)), unbytes('<I1', asked)
-- Of several requests, the keys that have changed since they were read; they are read again with MGET,
-- for GET is a right that nobody was asked for.
local written = #keys > states and {} or nil
-- What is answered: for each request a head, then for each of its states how it stood.
local answers, answered = {'', '', '', ''}, 0
-- What each state becomes, and how it is written: a TTL, KEEPTTL, or the offset from which on it is
-- overwritten. Tables grow step by step, and each step costs as much as a limit: these are made at size.
local new, ttls = {0, 0, 0, 0}, {0, 0, 0, 0}
-- MGET answers nothing for a key of another type, too. It is asked about only where MGET answered
-- nothing: a name that is known costs no more.
local function is_absent(key)
    return call('PTTL', key) == -2
end
-- Where the next policy's part of `asked` begins, how many states it is for, and how many of them are
-- to come.
local run_at, run_states, of_run = 3, 0, 0
