-- Charges requests to every limit of every identifier: looks at all limits, and only if all admit takes
-- from all. A script that fails half-way is not rolled back, so everything is read and checked before
-- the first write.
--
-- KEYS, ARGV[1], ARGV[3]  as in read_states.lua
-- ARGV[2]  for each request: cost d, then for each run: its own cost d, if its flags say that it has one, and
--          for each limit that is no window 16 bytes: the time that the cost takes and its parts d d (g, k), the
--          moment and - d d (s, d), the slot (c)
--
-- Answers  now d; for each request: which policies admit it I1 (1: the enforced ones, 2: those in
--          shadow, without candidates) and, after a denial, when the windows admit it d; then for each run of
--          a candidate, which has one request: whether it and all that would be enforced beside it admit I1
--          (0 or 1); then for each state its generation d
--          and for each limit two numbers d d. They say how the limit stood before the first request
--          took anything, but after limits with `count: all` have counted a denial:
--            windows    units, and when the next one is free; without units `ends` of the record
--            buckets    parts and tat
--            schedule   units in the fullest window of the moment, -
--            slots      how many are held, and 1 if the slot of the request is one of them
--          then, if a schedule denied, for each schedule that was asked: the moment looked at d, the
--          number of accepted moments I2, and each of them with its length I1

requests = ARGV[2]

-- Describes the states of a run.
local function tell(run, told)
    local format = '<d' .. string.rep('dd', #run)
    for i = run.first, run.last do
        local state = run.states[i]
        local numbers = {state.generation}
        for k, limit in ipairs(run) do
            local record = state[k]
            local ends = limit.verbs.tells_ends or record.units == 0
            numbers[2 * k], numbers[2 * k + 1] = record.units, ends and record.ends or record.oldest
        end
        told[#told + 1] = struct.pack(format, unpack(numbers))
    end
end

-- Whether an enforced policy denies, whether one in shadow does, whether a schedule does; and where in
-- ARGV[2] the numbers of the next request begin.
local function look_at_all(of_request, numbers_at)
    local denied, shadow_denied, by_moment = false, false, false
    for _, run in ipairs(runs) do
        local cost = of_request
        if run.has_cost then cost, numbers_at = unbytes('<d', requests, numbers_at) end
        for k, limit in ipairs(run) do
            local verbs = limit.verbs
            local look = verbs.look
            for i = run.first, run.last do
                if look(limit, run.states[i][k], i, cost, numbers_at) then
                    -- It admits.
                elseif run.soft then
                    -- It counts, and never denies.
                elseif run.candidate then
                    run.denies = true
                elseif run.shadow then
                    shadow_denied = true
                else
                    denied, run.denies, by_moment = true, true, by_moment or verbs.moments
                end
            end
            numbers_at = numbers_at + verbs.numbers
        end
    end
    return denied, shadow_denied, by_moment, numbers_at
end

-- Whether each candidate admits, and all policies do that would be enforced beside it: but for the runs
-- before it that it would replace.
local function judge_candidates()
    local denying, of_replaced, answers = 0, 0, {}
    for _, run in ipairs(runs) do
        if run.denies and not run.candidate then denying = denying + 1 end
    end
    for _, run in ipairs(runs) do
        if run.replaced and run.denies then of_replaced = of_replaced + 1 end
        if run.candidate then
            run.admits = not run.denies and denying == of_replaced
            of_replaced = 0
            answers[#answers + 1] = string.char(run.admits and 1 or 0)
        end
    end
    return table.concat(answers)
end

-- With `admitting`, takes from the policies that admit the request; else, of the policies that do not,
-- from the limits with `count: all`.
local function take_from_all(of_request, numbers_at, denied, shadow_denied, admitting)
    for _, run in ipairs(runs) do
        local cost = of_request
        if run.has_cost then cost, numbers_at = unbytes('<d', requests, numbers_at) end
        local admits = not denied and not (run.shadow and shadow_denied)
        if run.candidate then admits = run.admits end
        for k, limit in ipairs(run) do
            local verbs = limit.verbs
            if cost > 0 and admits == admitting and (admits or limit.counts_all) then
                local take = verbs.take
                for i = run.first, run.last do
                    local state = run.states[i]
                    if take(limit, state[k], i, cost, numbers_at) then state.changed = true end
                end
            end
            numbers_at = numbers_at + verbs.numbers
        end
    end
end

-- When all windows that deny would admit; and, if a schedule denies, the moments of each schedule.
local function explain(of_request, numbers_at, by_moment, explained)
    local retry_at = 0
    for _, run in ipairs(runs) do
        local cost = of_request
        if run.has_cost then cost, numbers_at = unbytes('<d', requests, numbers_at) end
        local tells = not run.shadow and not run.soft
        for k, limit in ipairs(run) do
            local verbs = limit.verbs
            numbers_at = numbers_at + verbs.numbers
            local tells_moments = by_moment and verbs.moments and not limit.skipped
            for i = tells and run.first or run.last + 1, run.last do
                if verbs.retry_at then
                    retry_at = math.max(retry_at, verbs.retry_at(limit, run.states[i][k], cost))
                elseif tells_moments then
                    explained[#explained + 1] = verbs.moments(limit, i)
                end
            end
        end
    end
    return retry_at
end

-- Decides the requests one after the other.
local verdicts, told, explained, cost_at = {}, {}, {}, 1
for request = 1, request_count do
    local cost, numbers_at = unbytes('<d', requests, cost_at)
    local denied, shadow_denied, by_moment, next_at = look_at_all(cost, numbers_at)
    local candidates = has_candidates and judge_candidates() or ''
    if denied or shadow_denied or has_candidates then
        take_from_all(cost, numbers_at, denied, shadow_denied, false)
    end
    local retry_at = denied and explain(cost, numbers_at, by_moment, explained) or 0
    if request == 1 then for _, run in ipairs(runs) do tell(run, told) end end
    if not denied or has_candidates then
        take_from_all(cost, numbers_at, denied, shadow_denied, true)
    end
    verdicts[request] =
        struct.pack('<I1d', (denied and 0 or 1) + (shadow_denied and 0 or 2), retry_at) .. candidates
    cost_at = next_at
end
for _, run in ipairs(runs) do
    for i = run.first, run.last do
        if run.states[i].changed then store(KEYS[i], run.states[i], now) end
    end
end
return struct.pack('<d', now) .. table.concat(verdicts) .. table.concat(told) ..
    table.concat(explained)
