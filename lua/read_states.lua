-- Reads KEYS, ARGV and the states; charge.lua, inspect.lua and report.lua go on from here.
--
-- KEYS     the states, one for each identifier and policy; then, for each of those in turn, a sorted
--          set for each limit of its policy that has one (schedule, concurrency)
-- ARGV[1]  the policies, packed: number of states I1, number of requests I1; then for each run of states
--          under one policy: number of states I1, flags I1, layout I4, number of limits
--          I1, for each limit its kind c1, for each limit three numbers I4 d d, for each limit its name
--          in a state I4 I1 (see state.lua)
--            flags: 1 in shadow, 2 its states have a cost of their own, 4 soft: counts and never denies,
--            8 a candidate, 16 what the next candidate would replace
--            w  sliding_window, fixed_window: quota, width and span, as in window.lua. In the place of
--               width -1 asks for weeks of UTC, -2 for months: those the script computes. For days,
--               weeks and months of a time zone the proxy sends when they end
--            l  sliding_log: the same;  W, L, M, G: with count: all
--            m  windows of money: the same, but for the quota, which comes d after all that; I4 is not used
--            g  gcra, k leaky_bucket: quota, how long a full bucket takes to become empty, and parts
--            s  schedule, d by UTC day: quota, duration, 1 if moments in the past are not limited
--            c  concurrency: quota, time of a hold, -
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

local unbytes = struct.unpack
local policies = ARGV[1]
server_clock = not ARGV[3]
now = server_clock and server_time() or tonumber(ARGV[3])
local states, request_count, policy_at = unbytes('<I1I1', policies)

local values = redis.call('MGET', unpack(KEYS, 1, states))
local runs, set, has_candidates = {}, states, false
local none = {}

-- Reads the states, and removes from them what has stopped counting.
while #runs == 0 or runs[#runs].last < states do
    local first = #runs == 0 and 1 or runs[#runs].last + 1
    local count, flags, layout, kinds, terms_at = unbytes('<I1I1I4I1c0', policies, policy_at)
    local n, lower = #kinds, string.lower(kinds)
    policy_at = terms_at + 25 * n
    local run = {first = first, last = first + count - 1, shadow = flags % 2 == 1, states = {}}
    if flags > 1 then run.has_cost, run.soft = flags % 4 > 1, flags % 8 > 3 end
    if flags > 7 then run.candidate, run.replaced, has_candidates = flags % 16 > 7, flags > 15, true end
    for k = 1, n do
        local quota, second, third = unbytes('<I4dd', policies, terms_at + 20 * (k - 1))
        local kind = string.sub(lower, k, k)
        if kind == 'm' then quota, policy_at = unbytes('<d', policies, policy_at) end
        local verbs, fault = algorithm(kind)
        if second < 0 then
            second, third, fault = verbs.begin(second, third)
            if fault then return redis.error_reply(fault) end
        end
        local has_set = verbs.has_set
        run[k] = {
            verbs = verbs, counts_all = string.sub(kinds, k, k) ~= kind,
            quota = quota, second = second, third = third,
            sets = has_set and {} or none, moments = has_set and {} or none,
            soft = run.soft,
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
            if limit.verbs.has_set then
                set = set + 1
                limit.sets[i] = KEYS[set]
            end
            local moved = limit.verbs.open(limit, state[k])
            state.moved = state.moved or moved
        end
        state.changed = state.moved
        run.states[i] = state
    end
    runs[#runs + 1] = run
end
