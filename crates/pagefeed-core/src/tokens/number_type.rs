//! Types of numbers, by the names that NumPy has for them, and memory as numbers of a type.

use arrow_schema::DataType;

macro_rules! number_types {
    ($($(#[$doc:meta])* $type:ident: $name:literal, $arrow:ident, $bytes:literal;)*) => {
        /// A type of numbers, which are held and copied as bits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum NumberType {
            $($(#[$doc])* $type,)*
        }

        impl NumberType {
            const ALL: &[Self] = &[$(Self::$type),*];

            /// Name in NumPy.
            pub fn name(self) -> &'static str {
                match self { $(Self::$type => $name,)* }
            }

            /// Type in Arrow.
            pub fn data_type(self) -> DataType {
                match self { $(Self::$type => DataType::$arrow,)* }
            }

            /// Bytes of a number.
            pub fn num_bytes(self) -> usize {
                match self { $(Self::$type => $bytes,)* }
            }
        }
    };
}

number_types! {
    /// 8-bit signed.
    I8: "int8", Int8, 1;
    /// 16-bit signed.
    I16: "int16", Int16, 2;
    /// 32-bit signed.
    I32: "int32", Int32, 4;
    /// 64-bit signed.
    I64: "int64", Int64, 8;
    /// 8-bit unsigned.
    U8: "uint8", UInt8, 1;
    /// 16-bit unsigned.
    U16: "uint16", UInt16, 2;
    /// 32-bit unsigned.
    U32: "uint32", UInt32, 4;
    /// 64-bit unsigned.
    U64: "uint64", UInt64, 8;
    /// Half precision.
    F16: "float16", Float16, 2;
    /// Single precision.
    F32: "float32", Float32, 4;
    /// Double precision.
    F64: "float64", Float64, 8;
}

impl NumberType {
    /// Returns the type of the numbers in a column, also inside lists or structs with
    /// one field; `None` for other types.
    pub fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Self::of(item.data_type())
            }
            // A path leads through structs of what it names alone.
            DataType::Struct(fields) if fields.len() == 1 => Self::of(fields[0].data_type()),
            _ => {
                let mut all = Self::ALL.iter().copied();
                all.find(|each| each.data_type() == *data_type)
            }
        }
    }

    /// The type of a name that NumPy has for it.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|each| each.name() == name)
    }
}

/// Memory as numbers; the bytes at its ends that are not aligned are left out.
pub(crate) fn as_numbers<T: Number>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: any bits are a number.
    unsafe { bytes.align_to_mut() }.1
}

/// Numbers of fields, for which any bits are valid.
pub trait Number: Copy + sealed::Sealed {
    /// Converts a value that fits: a position, a label, 0 or 1.
    fn of(value: i64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(
            impl sealed::Sealed for $number {}
            impl Number for $number {
                #[inline(always)]
                fn of(value: i64) -> Self {
                    value as Self
                }
            }
        )*
    };
}

numbers!(u8, u16, i32, i64, f32);
