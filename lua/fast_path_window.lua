            -- One limit of one state: forgets the sub-buckets that have ended, looks whether the cost
            -- still fits, and takes it. fast_path.lua includes these lines; `$` becomes the number of
            -- the limit. Of the limit: quota, width and span, as in window.lua. Of its record in the
            -- state: units, ends, oldest, base, marks (how many) and gone, as in state.lua. `before` is
            -- what the record held before the request.
            do
                local after = from + 6 * marks$
                -- Sub-buckets have ended: their units count no more.
                if units$ > 0 and now >= oldest$ then
                    same = false
                    if gone$ > marks$ or gone$ == marks$ and now < ends$ or after > head_at then
                        understood = false
                        break
                    end
                    local total = base$ + units$
                    if now >= ends$ then
                        base$, units$, gone$ = total % 4294967296, 0, marks$
                    else
                        repeat
                            local mark = from + 6 * gone$
                            gone$ = gone$ + 1
                            if gone$ < marks$ then
                                local _, next_label
                                base$, _, _, next_label = unbytes('<I4I2I4I2', value, mark)
                                oldest$ = ends$ -
                                    ((ends$ - span$) / width$ - next_label) % 65536 * width$
                            else
                                base$, oldest$ = unbytes('<I4', value, mark), ends$
                            end
                        until now < oldest$ or gone$ >= marks$
                        units$ = (total - base$) % 4294967296
                    end
                    -- Marks that count no more are cut off, eight at a time.
                    if gone$ > 7 or gone$ == marks$ and gone$ > 0 then
                        made = made .. sub(value, copied, from - 1)
                        copied, marks$, gone$ = from + 6 * gone$, marks$ - gone$, 0
                    end
                elseif now < ends$ - span$ then
                    understood = false  -- the clock was put back
                    break
                end
                before$ = units$
                if units$ + cost > quota$ then
                    denied = true
                    -- Only for a denial by one unit is the end of the oldest sub-bucket the time to retry.
                    if units$ + cost > quota$ + 1 then understood = false break end
                    if oldest$ > retry_at then retry_at = oldest$ end
                elseif not denied then
                    if units$ == 0 then
                        -- The first units open a sub-bucket.
                        same = false
                        ends$ = now - now % width$ + span$
                        oldest$ = ends$
                        if ends$ > last then last = ends$ end
                    elseif now >= ends$ - span$ + width$ then
                        -- The newest sub-bucket has ended and another begins. It leaves a mark, unless
                        -- its units were given back.
                        same = false
                        if after > head_at then understood = false break end
                        local total = (base$ + units$) % 4294967296
                        if marks$ == gone$ or unbytes('<I4', value, after - 6) ~= total then
                            local mark = bytes_of('<I4I2', total, (ends$ - span$) / width$ % 65536)
                            marks$ = marks$ + 1
                            if after == head_at then
                                appended = appended .. mark
                                if width$ >= 1000000 then may_append = false end
                            else
                                made, copied = made .. sub(value, copied, after - 1) .. mark, after
                            end
                        end
                        ends$ = now - now % width$ + span$
                        if ends$ > last then last = ends$ end
                    end
                    units$ = units$ + cost
                end
                from = after
            end
