-- Reads what is asked of and how it stands; `charge` and `inspect` go on from here.
--
-- KEYS     the states, one for each identifier and policy; then, for each of those in turn, a sorted
--          set for each limit of its policy that has one (schedule, concurrency)
-- ARGV[1]  what is asked of, packed: states I1, requests I1; then for each run of states under one
--          policy: states I1, flags I1 (1: in shadow), layout I4, limits I1, their kinds (a letter
--          each), then for each limit three numbers I4 d d, then for each its name in a state
--            w  sliding_window, fixed_window: quota, width and span, as in `window`
--            l  sliding_log: the same;  W, L, G: with count: all
--            g  gcra, k leaky_bucket: quota, and when a full bucket is empty, with its parts
--            s  schedule, d by UTC day: quota, duration, 1 when what is past is not asked
--            c  concurrency: quota, lease, -
-- ARGV[3]  the time in microseconds; without it the server's own

-- The state with the limits of this request as its first records, then the others that count: limits
-- it does not know (another tier, another version of the configuration) keep theirs until they expire.
-- At most 32 of those, so that nothing grows without bound.
local function arranged(state, layout, asked, names_at, limits, now)
    local known, strangers = {}, 0
    for _, record in ipairs(state) do known[record.id] = record end
    local new = {layout = layout, generation = state.generation, expiry = state.expiry}
    for k = 1, limits do
        local id, size = struct.unpack('<I4I1', asked, names_at + 5 * (k - 1))
        new[k] = known[id] or
            {id = id, size = size, units = 0, ends = 0, oldest = 0, base = 0, marks = ''}
        known[id] = nil
    end
    for _, record in ipairs(state) do
        if known[record.id] and record.ends >= now and strangers < 32 then
            strangers = strangers + 1
            new[#new + 1] = record
        end
    end
    if strangers > 0 then new.layout = #new end
    return new
end

local unbytes = struct.unpack
local asked = ARGV[1]
local server_clock = not ARGV[3]
local now = server_clock and server_time() or tonumber(ARGV[3])
local states, times, at = unbytes('<I1I1', asked)

local values = redis.call('MGET', unpack(KEYS, 1, states))
local runs, set = {}, states
local none = {}

-- Reads the states and forgets what has stopped counting.
while #runs == 0 or runs[#runs].last < states do
    local first = #runs == 0 and 1 or runs[#runs].last + 1
    local count, flags, layout, kinds, terms_at = unbytes('<I1I1I4I1c0', asked, at)
    local n, lower = #kinds, string.lower(kinds)
    local run = {first = first, last = first + count - 1, shadow = flags == 1, states = {}}
    for k = 1, n do
        local quota, second, third = unbytes('<I4dd', asked, terms_at + 20 * (k - 1))
        local kind = string.sub(lower, k, k)
        local has_set = kind == 's' or kind == 'd' or kind == 'c'
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
            state = arranged(state, layout, asked, terms_at + 20 * n, n, now)
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
    at = terms_at + 25 * n
end
