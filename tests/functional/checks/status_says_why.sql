-- a status is one of five; only a scored answer can be correct; a truncated completion has no answer
select * from verdicts
where status not in ('ok', 'no_answer', 'truncated', 'timeout', 'error')
    or (correct and status <> 'ok')
    or (correct is null) <> (status in ('timeout', 'error'))
    or (answer is null) <> (status in ('no_answer', 'truncated'))
