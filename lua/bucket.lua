-- gcra and leaky_bucket: a record holds its tat (theoretical arrival time), when the bucket is empty again.
-- The emission interval is a fraction, so a time is whole microseconds (`ends` of the record) and parts
-- of one in 1 / quota (`units`). For leaky_bucket, `oldest` is when the last request in the line came,
-- for giving back its place; negative where that is not known any more.

--for charge give_back report inspect
algorithms.g = function(letter)
    local leaky = letter == 'k'

    -- Makes the record count in parts of 1 / quota, and moves it back in time if the clock of Redis was put
    -- back far, so that the identifier is not blocked until the old time comes again; returns whether it was.
    -- The bucket is then full. The line of leaky_bucket keeps its length, as of when its last request came,
    -- for it may be much longer than max_delay. `full` is how long a full bucket takes to become empty.
    local function settle(record, quota, full, full_parts, follows_clock)
        if record.base ~= quota then
            keep_untouched(record)
            -- Parts of another quota are rounded up, never down.
            if record.units > 0 then record.units, record.ends = 0, record.ends + 1 end
            record.base = quota
        end
        if not follows_clock then return false end
        local newest = leaky and math.abs(record.oldest) or record.ends - full
        if newest - now <= 2 * full + 3 then return false end
        if leaky then
            record.ends, record.oldest, record.untouched = now + record.ends - newest, -now, nil
        else
            record.units, record.ends, record.untouched = full_parts, now + full, nil
        end
        return true
    end

--for charge report inspect
    local function open(limit, record)
        return settle(record, limit.quota, limit.second, limit.third, server_clock)
    end

--for charge
    -- Whether the bucket admits a request, and its tat with the time that the request takes. A negative time
    -- stands for a cost that the bucket never takes. In a line (`leaky`) a request waits only for the
    -- requests before it, so its own time does not count.
    local function look(limit, record, _, _, at)
        local quota, full = limit.quota, limit.second
        local time, parts = struct.unpack('<dd', requests, at)
        local tat, tat_parts = record.ends, record.units
        if tat < now then tat, tat_parts = now, 0 end
        local level, level_parts = tat - now, tat_parts
        tat, tat_parts = tat + time, tat_parts + parts
        if tat_parts >= quota then tat, tat_parts = tat + 1, tat_parts - quota end
        if not leaky then level, level_parts = tat - now, tat_parts end
        local admits = level < full or level == full and level_parts <= limit.third
        return admits and time >= 0, tat, tat_parts
    end

    local function take(limit, record, i, cost, at)
        local _, tat, parts = look(limit, record, i, cost, at)
        if limit.counts_all or limit.soft then
            -- The bucket fills to twice the burst at most, or stays where it was.
            local most, most_parts = now + 2 * limit.second, 2 * limit.third
            if most_parts >= limit.quota then most, most_parts = most + 1, most_parts - limit.quota end
            if record.ends > most or record.ends == most and record.units > most_parts then
                most, most_parts = record.ends, record.units
            end
            if tat > most or tat == most and parts > most_parts then tat, parts = most, most_parts end
        end
        if leaky then
            local newest = math.abs(record.oldest)
            record.oldest = now > newest and now or -newest
        end
        record.ends, record.units, record.untouched = tat, parts, nil
        return true
    end

    return {numbers = 16, tells_ends = true, open = open, look = look, take = take}
--for inspect
    local function count(_, record)
        return record.units, record.ends, 0, 0
    end

    return {open = open, count = count}
--for give_back
    -- The tat moves back by what the request took, but not to before the request came: the quota may have
    -- changed meanwhile.
    local function give_back(record, quota, time, parts, at)
        if record.ends < now or record.ends == now and record.units == 0 then return false end
        if leaky then
            -- Its place, while it is the last in line.
            if record.oldest ~= at then return false end
            record.oldest = -at
        else
            -- Only what cannot have leaked since: without this request the bucket might have been empty.
            time = time - math.max(0, now - at)
            if time < 0 or time + parts <= 0 then return false end
        end
        settle(record, quota)
        record.ends, record.units = record.ends - time, record.units - parts
        if record.units < 0 then record.ends, record.units = record.ends - 1, record.units + quota end
        if record.ends < at then record.ends, record.units = at, 0 end
        record.untouched = nil
        return true
    end

    return {give_back = give_back}
--for report
    local function is_later(us, parts, than, than_parts)
        return us > than or us == than and parts > than_parts
    end

    -- Moves the tat by the time that the units take, and at least to where it would be if the bucket had been
    -- empty.
    local function report(limit, record, portions, behind)
        local quota, portion = limit.quota, portions[1]
        local tat, parts = record.ends + portion.time, record.units + portion.parts
        if parts >= quota then tat, parts = tat + 1, parts - quota end
        local alone = portion.tat + behind
        if is_later(alone, portion.tat_parts, tat, parts) then tat, parts = alone, portion.tat_parts end
        local most = now + portion.most
        if is_later(tat, parts, most, portion.most_parts) then tat, parts = most, portion.most_parts end
        if not (is_later(tat, parts, record.ends, record.units) and is_later(tat, parts, now, 0)) then
            return false
        end
        record.ends, record.units = tat, parts
        if leaky then
            -- The last request of the line is not known here any more.
            local last = math.min(behind == 0 and portion.last or portion.last + behind, now)
            record.oldest = -math.max(math.abs(record.oldest), last)
        end
        return true
    end

    -- The time that the units take and its parts; the tat, had the bucket been empty before; the most that the
    -- bucket may then hold; when the last request came.
    local function next_portion(bytes, at)
        local portion = {}
        portion.time, portion.parts, portion.tat, portion.tat_parts, portion.most,
            portion.most_parts, portion.last, at = struct.unpack('<ddddddd', bytes, at)
        return portion, at
    end

    return {open = open, report = report, next_portion = next_portion}
--for charge give_back report inspect
end
algorithms.k = algorithms.g
