-- sliding_window, fixed_window and sliding_log, and of money with the letter m: sub-buckets of units, as
-- state.lua describes. `width` is the duration of a sub-bucket (0: the window begins with its first request),
-- `span` is how long a sub-bucket counts from its beginning. For a week or month, or a day of a time zone, they are moments: -`width` is
-- when the present one ends, `span` when the next one does; read_states.lua says who computes them.

--for charge give_back report inspect
algorithms.w = function(letter)
    local unbytes = struct.unpack
    -- Money is counted in wider numbers: totals modulo 2^52, and up to four times the largest quota.
    local is_money = letter == 'm'
    local wrap_total = is_money and 4503599627370496 or 4294967296

    local function mark_format(record)
        if is_money then return '<dI2', 65536 end
        if record.size == 12 then return '<I4d', 9007199254740992 end
        return '<I4I2', 65536
    end

    -- The first of `count` marks for which `reached(total, label)` holds, or count + 1; by bisection, as
    -- marks are in the order of time.
    local function first_mark(record, count, reached)
        local format = mark_format(record)
        local low, high = 1, count + 1
        while low < high do
            local middle = (low + high - (low + high) % 2) / 2
            local total, label = unbytes(format, record.marks, 1 + record.size * (middle - 1))
            if reached(total, label) then high = middle else low = middle + 1 end
        end
        return low
    end

    -- When the sub-bucket with this label stops counting.
    local function end_of(record, label, width, span)
        local _, wrap = mark_format(record)
        return record.ends - ((record.ends - span) / width - label) % wrap * width
    end

--for charge report inspect
    -- When a sub-bucket whose first units come now stops counting.
    local function end_of_new(width, span)
        if width >= 0 then return (width > 0 and now - now % width or now) + span end
        -- The next period has begun where the proxy computed them and its clock is behind; that it is not over
        -- either, begin() has made sure.
        return now < -width and -width or span
    end

    -- Removes the units that have stopped counting.
    local function settle(record, width, span)
        if record.units == 0 or now < record.oldest then return end
        keep_untouched(record)
        local total = (record.base + record.units) % wrap_total
        if record.ends <= now then
            record.base, record.units, record.ends, record.oldest, record.marks = total, 0, 0, 0, ''
            return
        end
        local size, count = record.size, #record.marks / record.size
        local first = first_mark(record, count, function(_, label)
            return end_of(record, label, width, span) > now
        end)
        local format = mark_format(record)
        -- With `first` == 1 no mark has ended: `oldest` was earlier than the marks say.
        if first > 1 then record.base = unbytes(format, record.marks, 1 + size * (first - 2)) end
        record.units = (total - record.base) % wrap_total
        record.oldest = record.units > 0 and record.ends or 0
        if first <= count then
            local _, label = unbytes(format, record.marks, 1 + size * (first - 1))
            record.oldest = end_of(record, label, width, span)
        end
        record.marks = string.sub(record.marks, 1 + size * (first - 1))
    end

    -- The same as follow_clock() for periods: moves a record back that is later than the next one.
    local function follow_calendar(record, width, span)
        if record.units == 0 or record.ends <= span then return false end
        local ends = end_of_new(width, span)
        -- Where the proxy's clock is behind, months of other lengths may follow.
        if ends >= span and record.ends <= ends + 2 * (span + width) then return false end
        record.ends, record.oldest = ends, ends
        return true
    end

    -- Moves a record back in time if the clock of Redis was put back by more than a window, and returns
    -- whether it was. Without that the identifier would wait until the old time comes again.
    local function follow_clock(record, width, span)
        if width < 0 then return follow_calendar(record, width, span) end
        if record.units == 0 or record.ends - span - now <= span then return false end
        local back = record.ends - end_of_new(width, span)
        local format, wrap = mark_format(record)
        local moved = {}
        for mark = 1, #record.marks / record.size do
            local total, label = unbytes(format, record.marks, 1 + record.size * (mark - 1))
            moved[mark] = struct.pack(format, total, (label - back / width) % wrap)
        end
        record.marks = table.concat(moved)
        record.ends, record.oldest = record.ends - back, record.oldest - back
        return true
    end

    local function open(limit, record)
        local width, span = limit.second, limit.third
        local moved = server_clock and follow_clock(record, width, span)
        settle(record, width, span)
        return moved
    end

    -- The first day of a month, in days since 1970. Months are counted from January 1970 on.
    local function first_day(month)
        -- Here a year begins in March, so a leap day is the last day of its year. Before month m of a year
        -- there are (153 m + 2) / 5 days, rounded down; 719468 are from March of the year 0 to 1970.
        local year, march = math.floor((month - 2) / 12) + 1970, (month - 2) % 12
        local leap_days = math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
        return 365 * year + leap_days + math.floor((153 * march + 2) / 5) - 719468
    end

    -- Width and span of the week (-1, from Monday on) or month (-2) of UTC that holds the time.
    local function period_of_utc(which)
        local day_us = 86400000000
        local day = (now - now % day_us) / day_us
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
    local function is_far_off(width, span)
        return now >= span or -width - now > 3 * math.max(span + width, 86400000000)
    end

    local function begin(width, span)
        if width >= -2 then return period_of_utc(width) end
        if not is_far_off(width, span) then return width, span end
        return nil, nil, 'TIDEGATE the clocks of the proxy and of Redis differ by more than a day, week or ' ..
            'month of a limit with time_zone: set the clock that is wrong'
    end

--for charge inspect
    -- When `needed` of the units that count will have stopped counting.
    local function frees_at(record, needed, width, span)
        local count = #record.marks / record.size
        local first = first_mark(record, count, function(total)
            return (total - record.base) % wrap_total >= needed
        end)
        if first > count then return record.ends end
        local _, label = unbytes(mark_format(record), record.marks, 1 + record.size * (first - 1))
        return end_of(record, label, width, span)
    end

--for charge report
    local most = is_money and 4000000000000000 or 4294967295

--for charge
    local function look(limit, record, _, cost)
        return record.units + cost <= limit.quota
    end

    -- The record is settled. Units saturate, as nothing else bounds them with `count: all`.
    local function take(limit, record, _, cost)
        local width, span = limit.second, limit.third
        -- A week, a month or a window that its first request opened has one sub-bucket, and keeps it while it has
        -- units.
        local ends = (record.units == 0 or width > 0) and end_of_new(width, span)
        record.untouched = nil
        if record.units == 0 then
            -- The time of a record never runs backwards, not even after all units were given back.
            record.ends = math.max(ends, record.ends)
            record.oldest = record.ends
        elseif width > 0 and ends > record.ends then
            -- The newest sub-bucket has ended and leaves a mark, unless its units were given back.
            local format, wrap = mark_format(record)
            local total = (record.base + record.units) % wrap_total
            local last = #record.marks - record.size + 1
            if last < 1 or unbytes(format, record.marks, last) ~= total then
                record.marks = record.marks ..
                    struct.pack(format, total, (record.ends - span) / width % wrap)
            end
            record.ends = ends
            if record.size == 12 and #record.marks > 1000 * 12 then
                -- A log has more marks than its largest possible quota: the oldest changes no decision.
                local gone, _, _, label = unbytes('<I4dI4d', record.marks)
                record.units = record.units - (gone - record.base) % wrap_total
                record.base, record.oldest = gone, label + span
                record.marks = string.sub(record.marks, 13)
            end
        end
        record.units = math.min(record.units + cost, most)
        return true
    end

    local function retry_at(limit, record, cost)
        local over = record.units + cost - limit.quota
        if over <= 0 or cost > limit.quota then return 0 end
        return frees_at(record, over, limit.second, limit.third)
    end

    return {numbers = 0, begin = begin, open = open, look = look, take = take, retry_at = retry_at}
--for inspect
    local function count(limit, record)
        if record.units == 0 then return 0, 0, 0, 0 end
        local width, span = limit.second, limit.third
        local needed, passes_at = record.units + 1 - limit.quota, 0
        if needed > 0 and limit.quota > 0 then passes_at = frees_at(record, needed, width, span) end
        return record.units, record.oldest, frees_at(record, record.units, width, span), passes_at
    end

    return {begin = begin, open = open, count = count}
--for give_back
    -- The sub-bucket of units that were taken at `at`: the number of its mark, count + 1 for the newest one,
    -- nil if the units do not count any more.
    local function mark_at(record, count, width, span, at)
        if record.ends <= now then return nil end
        if width < 0 then return record.ends == -width and count + 1 or nil end
        if width == 0 then return at >= record.ends - span and at < record.ends and count + 1 or nil end
        local ends = at - at % width + span
        if ends <= math.max(now, record.ends - span) then return nil end
        if ends == record.ends then return count + 1 end
        local first = first_mark(record, count, function(_, label)
            return end_of(record, label, width, span) >= ends
        end)
        if first > count then return nil end
        local _, label = unbytes(mark_format(record), record.marks, 1 + record.size * (first - 1))
        return end_of(record, label, width, span) == ends and first or nil
    end

    local function give_back(record, width, span, units, at)
        local size, format = record.size, mark_format(record)
        local count = #record.marks / size
        local place = record.units > 0 and mark_at(record, count, width, span, at)
        if not place then return false end
        local marks, before, given, oldest = '', record.base, 0, record.ends
        for mark = 1, count do
            local total, label = unbytes(format, record.marks, 1 + size * (mark - 1))
            local held = (total - before) % wrap_total
            if mark == place then given = math.min(units, held) end
            before = total
            -- Every later mark gets a total without the units; an empty sub-bucket loses its mark.
            if mark ~= place or given < held then
                if marks == '' then oldest = end_of(record, label, width, span) end
                marks = marks .. struct.pack(format, (total - given) % wrap_total, label)
            end
        end
        if place > count then
            given = math.min(units, (record.base + record.units - before) % wrap_total)
        end
        record.marks, record.units = marks, record.units - given
        record.oldest = record.units > 0 and oldest or 0
        return given > 0
    end

    return {give_back = give_back}
--for report
    -- When, by the clock of Redis, the last unit of a sub-bucket may have been taken; never later than now.
    local function here(began, width, behind)
        return math.min(behind == 0 and began or began + width - 1 + behind, now)
    end

    -- Windows that begin with their first request do not overlap, nor do days, weeks and months: only the
    -- current one counts.
    local function report_opened(record, width, span, portions, behind)
        local units = record.units
        for _, portion in ipairs(portions) do
            local ends = width < 0 and portion.began or here(portion.began, 1, behind) + span
            -- A proxy whose clock is days behind names a period that is over here, and was not there.
            if width < 0 and behind > 86400000000 and ends + behind > now then
                ends = end_of_new(width, span)
            end
            if ends > now then
                if record.units == 0 then record.ends = math.max(ends, record.ends) end
                record.units = math.min(record.units + portion.units, most)
            end
        end
        record.oldest = record.units > 0 and record.ends or 0
        return record.units > units
    end

    -- The units of each sub-bucket that counts, by the time when it stops counting; the list of those times;
    -- and a function that adds units to one.
    local function sub_buckets(record, width, span)
        local held, ends, before, size = {}, {}, record.base, record.size
        local function add(till, units)
            if not held[till] then held[till], ends[#ends + 1] = 0, till end
            held[till] = held[till] + units
        end
        for mark = 1, #record.marks / size do
            local total, label = unbytes(mark_format(record), record.marks, 1 + size * (mark - 1))
            add(end_of(record, label, width, span), (total - before) % wrap_total)
            before = total
        end
        -- Even without units, as the time of a record never runs backwards.
        if record.ends > now then add(record.ends, (record.base + record.units - before) % wrap_total) end
        return held, ends, add
    end

    local function report_window(record, width, span, portions, behind)
        local held, ends, add = sub_buckets(record, width, span)
        local newest, left = math.max(now, record.ends - span), most - record.units
        local counted = false
        for _, portion in ipairs(portions) do
            local at = here(portion.began, width, behind)
            local till, units = at - at % width + span, math.min(portion.units, left)
            if till > newest and units > 0 then
                add(till, units)
                left, counted = left - units, true
            end
        end
        if not counted then return false end
        table.sort(ends)
        local format, wrap = mark_format(record)
        local marks, total, oldest = {}, record.base, 0
        -- A log keeps 1,001 moments: see take().
        for i = record.size == 12 and math.max(1, #ends - 1000) or 1, #ends do
            local till = ends[i]
            total = total + held[till]
            if held[till] > 0 and oldest == 0 then oldest = till end
            if held[till] > 0 and i < #ends then
                marks[#marks + 1] =
                    struct.pack(format, total % wrap_total, (till - span) / width % wrap)
            end
        end
        record.marks, record.units = table.concat(marks), total - record.base
        record.ends, record.oldest = ends[#ends], oldest
        return true
    end

    local function report(limit, record, portions, behind)
        local how = limit.second <= 0 and report_opened or report_window
        return how(record, limit.second, limit.third, portions, behind)
    end

    -- When its sub-bucket began (if the window begins with its first request: when that came; of a day, week or
    -- month: when that ends) and the units.
    local function next_portion(bytes, at)
        local portion = {}
        portion.began, portion.units, at = unbytes(is_money and '<dd' or '<dI4', bytes, at)
        return portion, at
    end

    return {begin = begin, open = open, report = report, next_portion = next_portion}
--for charge give_back report inspect
end
-- The letter makes no difference here, so both share their functions.
algorithms.l = function() return algorithm('w') end
algorithms.m = algorithms.w
