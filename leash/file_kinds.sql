-- file_kinds: the first Parquet file of each kind. Files are of one kind if they have the same columns and types.
with kinds as (
    select file_name, md5(string_agg(concat_ws(' ', name, type, logical_type), ',' order by name, type)) as kind
    from parquet_schema($files)
    group by file_name
)

select min(file_name) as file
from kinds
group by kind
order by file
