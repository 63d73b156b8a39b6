// Prints a Parquet file as JSON: its columns with their types, and its rows.
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } from "hyparquet";

const file = await asyncBufferFromFile(process.argv[2]);
const columns = parquetSchema(await parquetMetadataAsync(file)).children.map(({ element }) => [
  element.name, element.logical_type?.type ?? element.type,
]);
const rows = await parquetReadObjects({ file });
process.stdout.write(JSON.stringify({ columns, rows }, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
