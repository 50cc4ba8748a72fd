-- odd_columns: columns, with their types, that some of these Parquet files have and others lack.
select name, type, logical_type, count(*) as files
from parquet_schema($files)
group by name, type, logical_type
having files < len($files)
