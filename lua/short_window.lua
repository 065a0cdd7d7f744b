        -- One limit of one state, for the short way and the middle way: with its number for each `$`
        -- where limits are unrolled, without where they are in a loop.
        --   q w s        quota, width, span, as in `window`
        --   u e o b c g  units, ends, oldest, base, marks (count), gone, as in the state
        --   h            the units that it held before the request
        -- Of the state: `from`, where in `value` the marks of this limit begin, and `till`, where the
        -- value ends; `made`, what has been made of what stands between head and `copied`.
        do
            local after = from + 6 * c$
            if u$ > 0 and now >= o$ then
                same = false
                if g$ > c$ or g$ == c$ and now < e$ or after > till then
                    understood = false
                    break
                end
                local total = b$ + u$
                if now >= e$ then
                    b$, u$, g$ = total % 4294967296, 0, c$
                else
                    repeat
                        local mark = from + 6 * g$
                        g$ = g$ + 1
                        if g$ < c$ then
                            local _, next_label
                            b$, _, _, next_label = unbytes('<I4I2I4I2', value, mark)
                            o$ = e$ - ((e$ - s$) / w$ - next_label) % 65536 * w$
                        else
                            b$, o$ = unbytes('<I4', value, mark), e$
                        end
                    until now < o$ or g$ >= c$
                    u$ = (total - b$) % 4294967296
                end
                if g$ > 7 or g$ == c$ and g$ > 0 then
                    made = made .. sub(value, copied, from - 1)
                    copied, c$, g$ = from + 6 * g$, c$ - g$, 0
                end
            elseif now < e$ - s$ then
                understood = false  -- the clock was put back
                break
            end
            h$ = u$
            if u$ + cost > q$ then
                denied = true
                if u$ + cost > q$ + 1 then understood = false break end
                if o$ > retry_at then retry_at = o$ end
            elseif not denied then
                if u$ == 0 then
                    same = false
                    e$ = now - now % w$ + s$
                    o$ = e$
                    if e$ > last then last = e$ end
                elseif now >= e$ - s$ + w$ then
                    same = false
                    -- The newest sub-bucket has ended: it leaves a mark, unless its units were given
                    -- back.
                    if after > till then understood = false break end
                    local total = (b$ + u$) % 4294967296
                    if c$ == g$ or unbytes('<I4', value, after - 6) ~= total then
                        made = made .. sub(value, copied, after - 1) ..
                            bytes_of('<I4I2', total, (e$ - s$) / w$ % 65536)
                        copied, c$ = after, c$ + 1
                    end
                    e$ = now - now % w$ + s$
                    if e$ > last then last = e$ end
                end
                u$ = u$ + cost
            end
            from = after
        end
