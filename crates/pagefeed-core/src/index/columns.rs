//! Tables of numbers: arrays that grow while an index is built, and are pieces of a mapped
//! file once it is opened.

/// Declares a table of columns, and one that grows.
macro_rules! columns {
    (
        $(#[$table_doc:meta])* $table:ident, $(#[$builder_doc:meta])* $builder:ident:
        $($(#[$doc:meta])* $name:ident: $native:ty as $arrow:ty,)*
    ) => {
        $(#[$table_doc])*
        #[derive(Clone, Debug)]
        pub struct $table {
            $($(#[$doc])* pub $name: ScalarBuffer<$native>,)*
        }

        $(#[$builder_doc])*
        #[derive(Debug, Default)]
        pub struct $builder {
            $(pub(super) $name: Vec<$native>,)*
        }

        impl $builder {
            /// The table built so far.
            pub fn finish(self) -> $table {
                $table { $($name: self.$name.into(),)* }
            }
        }

        impl $table {
            /// Columns of the stored form, one list for each table.
            pub fn fields() -> Vec<Field> {
                vec![$(list_field::<$arrow>(stringify!($name)),)*]
            }

            /// The columns of some tables, in the order of `fields`.
            pub fn to_arrays(tables: &[&Self]) -> Result<Vec<ArrayRef>> {
                Ok(vec![$({
                    let columns: Vec<_> = tables.iter().map(|table| &table.$name).collect();
                    lists::<$arrow>(&columns)?
                },)*])
            }

            /// Table `row` of the persistent form, without a copy and unchecked.
            fn of_row(batch: &RecordBatch, row: usize) -> Result<Self> {
                Ok(Self {
                    $($name: list_row::<$arrow>(batch, stringify!($name), row)?,)*
                })
            }
        }
    };
}

pub(super) use columns;
