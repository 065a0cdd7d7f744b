-- Counts what a proxy admitted in process while Redis was away: adds units to the sub-buckets in which they
-- were taken, as far as those still count. Nothing is denied; units above the quota deny later requests.
--
-- KEYS[1]  the state
-- ARGV[1], ARGV[3]  as in read_states.lua: one state, no request
-- ARGV[2]  the time of the proxy's clock d, then for each limit how many portions were taken I2, each
--            windows    when its sub-bucket began d (if the window begins with its first request: when
--                       that came; of a day, week or month: when that ends) and units I4, of money d
--            buckets    one: the time that the units take and its parts d d; the tat, had the bucket
--                       been empty before, d d; the most that the bucket may then hold d d; when the
--                       last request came d
--            others     none
--
-- Answers 1 if something was counted, else 0.

local report = ARGV[2]
local run = runs[1]
local state = run.states[1]
local sent, portions_at = unbytes('<d', report)

-- The clocks of proxy and Redis count as equal if they differ by less than a second: the command has
-- travelled meanwhile.
local behind = now - sent
if math.abs(behind) < 1000000 then behind = 0 end

for k, limit in ipairs(run) do
    local record, verbs, portions, count = state[k], limit.verbs, {}, 0
    count, portions_at = unbytes('<I2', report, portions_at)
    for i = 1, count do portions[i], portions_at = verbs.next_portion(report, portions_at) end
    if count > 0 and verbs.report(limit, record, portions, behind) then
        record.untouched, state.changed, state.counted = nil, true, true
    end
end
if state.changed then store(KEYS[1], state, now) end
return state.counted and 1 or 0
