-- What the algorithms share. Each has a file, which adds for each of its letters (read_states.lua lists them) a
-- function to `algorithms`. It makes the table of the verbs, and is called for the first limit of that letter: a
-- script makes no functions for algorithms that it does not meet.
--
--   numbers     how many bytes of a request are for the limit (ARGV[2] of charge.lua)
--   has_set     there is a sorted set for each limit and state; its key is limit.sets[i]
--   begin       (second, third)  where the second number of a limit is below zero: these numbers, as the time that
--               counts makes them; or nil, nil and what is wrong
--   open        (limit, record)  removes from a record what has stopped counting; whether it was moved in time
--   look        (limit, record, i, cost, at)  whether the limit admits a request to state i whose bytes begin `at`.
--               Leaves in the record what the answer tells
--   take        (limit, record, i, cost, at)  takes the cost; whether the state has changed
--   tells_ends  the answer tells `ends` of a record, always; else only where it has no units, and `oldest` else
--   retry_at    (limit, record, cost)  when a window admits the cost that it denies; 0 if it admits it, or never
--   moments     (limit, i)  the moments that the limit has accepted, packed; for those that are about moments
--   count       (limit, record, i)  four numbers for people: see inspect.lua
--   give_back   (record, first, second, third, at)  gives back to a record; whether that changed it
--   give_back_to_set  (key, first, second)  the same for a sorted set
--   next_portion  (report, at)  what was taken while Redis was away, and where the next one begins
--   report      (limit, record, portions, behind)  counts portions; whether something was counted
--
-- A line `--for NAMES` says for which scripts the lines up to the next one are: charge (and settle_more),
-- give_back (and settle_less), report, inspect, renew and hold.

-- With room for as many letters: a table that grows four times takes longer than what most scripts do with it.
local algorithms =
    {w = false, l = false, m = false, g = false, k = false, s = false, d = false, c = false}
local made =
    {w = false, l = false, m = false, g = false, k = false, s = false, d = false, c = false}
-- What the algorithms count by: the time; whether it is that of Redis; and the bytes of the requests.
local now, server_clock, requests

local function algorithm(letter)
    local verbs = made[letter]
    if not verbs then
        verbs = algorithms[letter](letter)
        made[letter] = verbs
    end
    return verbs
end
