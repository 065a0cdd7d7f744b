-- Reads KEYS, ARGV and the states; charge.lua, inspect.lua and report.lua go on from here.
--
-- KEYS     the states, one for each identifier and policy; then, for each of those in turn, a sorted
--          set for each limit of its policy that has one (schedule, concurrency)
-- ARGV[1]  the policies, packed: number of states I1, number of requests I1; then for each run of states
--          under one policy: number of states I1, flags I1 (1: in shadow), layout I4, number of limits
--          I1, for each limit its kind c1, for each limit three numbers I4 d d, for each limit its name
--          in a state I4 I1 (see state.lua)
--            w  sliding_window, fixed_window: quota, width and span, as in window.lua. In the place of
--               width -1 asks for weeks of UTC, -2 for months: those the script computes. For days,
--               weeks and months of a time zone the proxy sends when they end
--            l  sliding_log: the same;  W, L, G: with count: all
--            g  gcra, k leaky_bucket: quota, how long a full bucket takes to become empty, and parts
--            s  schedule, d by UTC day: quota, duration, 1 if moments in the past are not limited
--            c  concurrency: quota, lease, -
-- ARGV[3]  the time in microseconds; without it the clock of Redis counts

-- The state with the limits of this request as its first records. Records of other limits (of another
-- tier, of another version of the configuration) follow until they expire. There are at most 32 of them,
-- so that a state cannot grow without bound.
local function arranged(state, layout, policies, names_at, limits, now)
    local known, others = {}, 0
    for _, record in ipairs(state) do known[record.id] = record end
    local new = {layout = layout, generation = state.generation, expiry = state.expiry}
    for k = 1, limits do
        local id, size = struct.unpack('<I4I1', policies, names_at + 5 * (k - 1))
        new[k] = known[id] or
            {id = id, size = size, units = 0, ends = 0, oldest = 0, base = 0, marks = ''}
        known[id] = nil
    end
    for _, record in ipairs(state) do
        if known[record.id] and record.ends >= now and others < 32 then
            others = others + 1
            new[#new + 1] = record
        end
    end
    if others > 0 then new.layout = #new end
    return new
end

-- The first day of a month, in days since 1970. Months are counted from January 1970 on.
local function first_day(month)
    -- Here a year begins in March, so a leap day is the last day of its year. Before month m of a year
    -- there are (153 m + 2) / 5 days, rounded down; 719468 are from March of the year 0 to 1970.
    local year, march = math.floor((month - 2) / 12) + 1970, (month - 2) % 12
    local leap_days = math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
    return 365 * year + leap_days + math.floor((153 * march + 2) / 5) - 719468
end

-- Width and span of the week (-1, from Monday on) or month (-2) of UTC that holds a time: see window.lua.
local function period_of_utc(time, which)
    local day_us = 86400000000
    local day = (time - time % day_us) / day_us
    if which == -1 then
        -- 1970-01-05 was a Monday.
        local monday = day - (day - 4) % 7
        return -(monday + 7) * day_us, (monday + 14) * day_us
    end
    -- A month has 30.436875 days on average. So this is the right month or one beside it.
    local month = math.floor(day / 30.436875)
    if first_day(month) > day then month = month - 1 end
    if first_day(month + 1) <= day then month = month + 1 end
    return -first_day(month + 1) * day_us, first_day(month + 2) * day_us
end

-- Whether the periods that the proxy computed are so far from now that a clock must be wrong: what it
-- calls the next one is over, or the present one ends more than three periods from now. An end that is
-- made up here would be one at which no period ends, and so bring a second quota within a period.
local function is_far_off(time, width, span)
    return time >= span or -width - time > 3 * math.max(span + width, 86400000000)
end

local unbytes = struct.unpack
local policies = ARGV[1]
local server_clock = not ARGV[3]
local now = server_clock and server_time() or tonumber(ARGV[3])
local states, request_count, policy_at = unbytes('<I1I1', policies)

local values = redis.call('MGET', unpack(KEYS, 1, states))
local runs, set = {}, states
local none = {}

-- Reads the states, and removes from them what has stopped counting.
while #runs == 0 or runs[#runs].last < states do
    local first = #runs == 0 and 1 or runs[#runs].last + 1
    local count, flags, layout, kinds, terms_at = unbytes('<I1I1I4I1c0', policies, policy_at)
    local n, lower = #kinds, string.lower(kinds)
    local run = {first = first, last = first + count - 1, shadow = flags == 1, states = {}}
    for k = 1, n do
        local quota, second, third = unbytes('<I4dd', policies, terms_at + 20 * (k - 1))
        local kind = string.sub(lower, k, k)
        local has_set = kind == 's' or kind == 'd' or kind == 'c'
        if second < 0 and kind == 'w' then
            if second >= -2 then
                second, third = period_of_utc(now, second)
            elseif is_far_off(now, second, third) then
                return redis.error_reply(
                    'TIDEGATE the clocks of the proxy and of Redis differ by more than a day, week or ' ..
                    'month of a limit with time_zone: set the clock that is wrong')
            end
        end
        run[k] = {
            kind = kind, counts_all = string.sub(kinds, k, k) ~= kind,
            quota = quota, second = second, third = third,
            sets = has_set and {} or none, moments = has_set and {} or none,
        }
    end
    for i = first, run.last do
        local state = {layout = 0, generation = now % 4294967295 + 1, expiry = 0}
        if values[i] then
            state = opened(values[i])
        elseif not is_absent(KEYS[i]) then
            state = nil
        end
        if not state then return unreadable(KEYS[i]) end
        if state.layout ~= layout then
            state = arranged(state, layout, policies, terms_at + 20 * n, n, now)
        end
        for k, limit in ipairs(run) do
            local kind, moved = limit.kind, false
            if kind == 'w' or kind == 'l' then
                moved = server_clock and follow_clock(state[k], now, limit.second, limit.third)
                settle(state[k], now, limit.second, limit.third)
            elseif kind == 'g' or kind == 'k' then
                moved = settle_bucket(
                    state[k], limit.quota, now, limit.second, limit.third, server_clock, kind == 'k')
            else
                set = set + 1
                limit.sets[i] = KEYS[set]
                moved = server_clock and follow_newest(state[k], now, limit.second)
            end
            state.moved = state.moved or moved
        end
        state.changed = state.moved
        run.states[i] = state
    end
    runs[#runs + 1] = run
    policy_at = terms_at + 25 * n
end
