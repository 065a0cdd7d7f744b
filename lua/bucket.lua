-- gcra and leaky_bucket. A time is whole microseconds and parts of one, in 1 / quota, as emission is a
-- fraction: `units` of the record are the parts of its tat, `ends` the microseconds. `oldest` is when
-- the last in line of leaky_bucket came, for giving back; negative where that is not known any more.

-- Makes the record one that counts in 1 / quota. A server clock that was put back far must not lock
-- anybody out: true if so. Then a full bucket is enough; but a line stands as when its last came, for
-- its turns may be much longer than anybody is let wait (max_delay). `full` is when a bucket that fills
-- now is empty.
local function settle_bucket(record, quota, now, full, full_parts, server_clock, leaky)
    if record.base ~= quota then
        keep_untouched(record)
        -- The parts of another quota: up, never down.
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

-- Whether the bucket admits, and its tat when the request's own time is added; a negative one is more
-- than it ever takes. In a line (`leaky`) a request waits only for those before it.
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
