//! Which types of fields can be settings, and how they become values.

use core::time::Duration;

use super::Value;

/// A type whose values a file can have.
pub trait SettingField: Sized {
    /// The value; none where it is left open.
    fn to_value(&self) -> Option<Value>;

    /// From a value, if it is of the right kind and fits.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl SettingField for $type {
            fn to_value(&self) -> Option<Value> {
                u64::try_from(*self).ok().map(Value::Integer)
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Integer(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers!(u16 u32 u64 usize);

impl SettingField for Duration {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Time(*self))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Time(time) => Some(time),
            _ => None,
        }
    }
}

impl SettingField for bool {
    fn to_value(&self) -> Option<Value> {
        Some(Value::Flag(*self))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

impl<T: SettingField> SettingField for Option<T> {
    fn to_value(&self) -> Option<Value> {
        self.as_ref().and_then(T::to_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        T::from_value(value).map(Some)
    }
}
