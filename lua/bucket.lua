-- gcra and leaky_bucket: a record holds its tat (theoretical arrival time), when the bucket is empty again.
-- The emission interval is a fraction, so a time is whole microseconds (`ends` of the record) and parts
-- of one in 1 / quota (`units`). For leaky_bucket, `oldest` is when the last request in the line came,
-- for giving back its place; negative where that is not known any more.

-- Makes the record count in parts of 1 / quota, and moves it back in time if the clock of Redis was put
-- back far, so that the identifier is not blocked until the old time comes again; returns whether it was.
-- The bucket is then full. The line of leaky_bucket keeps its length, as of when its last request came,
-- for it may be much longer than max_delay. `full` is how long a full bucket takes to become empty.
local function settle_bucket(record, quota, now, full, full_parts, server_clock, leaky)
    if record.base ~= quota then
        keep_untouched(record)
        -- Parts of another quota are rounded up, never down.
        if record.units > 0 then record.units, record.ends = 0, record.ends + 1 end
        record.base = quota
    end
    if not server_clock then return false end
    local newest = leaky and math.abs(record.oldest) or record.ends - full
    if newest - now <= 2 * full + 3 then return false end
    if leaky then
        record.ends, record.oldest, record.untouched = now + record.ends - newest, -now, nil
    else
        record.units, record.ends, record.untouched = full_parts, now + full, nil
    end
    return true
end

-- Whether the bucket admits a request, and its tat with the time that the request takes. A negative time
-- stands for a cost that the bucket never takes. In a line (`leaky`) a request waits only for the
-- requests before it, so its own time does not count.
local function look_bucket(record, quota, now, full, full_parts, time, parts, leaky)
    local tat, tat_parts = record.ends, record.units
    if tat < now then tat, tat_parts = now, 0 end
    local level, level_parts = tat - now, tat_parts
    tat, tat_parts = tat + time, tat_parts + parts
    if tat_parts >= quota then tat, tat_parts = tat + 1, tat_parts - quota end
    if not leaky then level, level_parts = tat - now, tat_parts end
    local admits = level < full or level == full and level_parts <= full_parts
    return admits and time >= 0, tat, tat_parts
end

local function take_bucket(record, now, tat, tat_parts, leaky)
    if leaky then
        local newest = math.abs(record.oldest)
        record.oldest = now > newest and now or -newest
    end
    record.ends, record.units, record.untouched = tat, tat_parts, nil
end
